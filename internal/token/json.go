package token

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
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
