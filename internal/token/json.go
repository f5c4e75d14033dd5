package token

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// deepest is how deep the JSON of a token may be nested.
const deepest = 32

// readObject reads a JSON object and nothing behind it. Two members of one name are
// refused: which of them counts is a matter of taste (RFC 8259 4), and what the gateway
// has checked would not be what the next one reads. Numbers are json.Number.
func readObject(data []byte) (map[string]any, error) {
	r := objectReader{json.NewDecoder(bytes.NewReader(data))}
	r.UseNumber()
	first, err := r.Token()
	if err != nil || first != json.Delim('{') {
		return nil, ErrMalformed
	}
	object, err := r.object(0)
	if err != nil {
		return nil, ErrMalformed
	}
	if _, err := r.Token(); !errors.Is(err, io.EOF) {
		return nil, ErrMalformed
	}
	return object, nil
}

type objectReader struct{ *json.Decoder }

// object reads what follows a {.
func (r objectReader) object(depth int) (map[string]any, error) {
	object := map[string]any{}
	for r.More() {
		name, err := r.Token()
		if err != nil {
			return nil, err
		}
		text, ok := name.(string)
		if _, twice := object[text]; !ok || twice {
			return nil, ErrMalformed
		}
		if object[text], err = r.value(depth + 1); err != nil {
			return nil, err
		}
	}
	_, err := r.Token()
	return object, err
}

func (r objectReader) list(depth int) ([]any, error) {
	list := []any{}
	for r.More() {
		value, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := r.Token()
	return list, err
}

func (r objectReader) value(depth int) (any, error) {
	next, err := r.Token()
	switch {
	case err != nil:
		return nil, err
	case depth > deepest:
		return nil, ErrMalformed
	case next == json.Delim('{'):
		return r.object(depth)
	case next == json.Delim('['):
		return r.list(depth)
	}
	return next, nil
}

// halved tells whether JSON has an escape of half a character: of one surrogate without the
// other (RFC 7493 2.1). What that means is a matter of taste, too (RFC 8259 8.2): it may
// come to another name.
func halved(data []byte) bool {
	const size = len(`\u0000`)
	for {
		at := bytes.IndexByte(data, '\\')
		if at < 0 {
			return false
		}
		data = data[at:]
		first := escaped(data)
		switch {
		case !utf16.IsSurrogate(first):
			data = data[min(2, len(data)):] // past what is escaped, which may be a backslash
		case utf16.DecodeRune(first, escaped(data[size:])) == utf8.RuneError:
			return true
		default:
			data = data[2*size:]
		}
	}
}

// escaped is what \uXXXX at the beginning stands for, 0 where there is none.
func escaped(data []byte) rune {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0
	}
	code, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(code)
}
