package telemetry

import (
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"sluice/internal/model"
)

// jsonField is one field of a JSON line: its name with quotes and colon, ready
// to copy, and its index in model.AccessLogFields.
type jsonField struct {
	key   string
	field int
}

// The indices of model.AccessLogFields.
const (
	fieldTime = iota
	fieldRequestID
	fieldTraceID
	fieldClientIP
	fieldMethod
	fieldHost
	fieldPath
	fieldProtocol
	fieldStatus
	fieldError
	fieldBytesIn
	fieldBytesOut
	fieldDuration
	fieldUpstreamDuration
	fieldGatewayDuration
	fieldRoute
	fieldUpstream
	fieldEndpoint
	fieldVersion
	fieldAttempts
	fieldUserAgent
	fieldConsumer
	fieldCount
)

// jsonFields returns the fields that a line has, in the order of
// model.AccessLogFields; all of them for no names. A name that is no field is a
// fault of whoever validated the settings.
func jsonFields(names []string) []jsonField {
	for _, name := range names {
		if !slices.Contains(model.AccessLogFields[:], name) {
			panic("BUG: the access log has no field " + name)
		}
	}
	var fields []jsonField
	for i, name := range model.AccessLogFields {
		if len(names) == 0 || slices.Contains(names, name) {
			fields = append(fields, jsonField{key: `"` + name + `":`, field: i})
		}
	}
	return fields
}

// appendJSON writes a record as one JSON object on one line.
func appendJSON(dst []byte, r *Record, fields []jsonField) []byte {
	dst = append(dst, '{')
	for i, field := range fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, field.key...)
		if text, ok := r.text(field.field); ok {
			dst = appendString(dst, text)
		} else {
			dst = appendFigure(dst, r, field.field)
		}
	}
	return append(dst, '}', '\n')
}

// text returns the value of a field that is text.
func (r *Record) text(field int) (string, bool) {
	switch field {
	case fieldRequestID:
		return r.RequestID, true
	case fieldTraceID:
		return r.TraceID, true
	case fieldMethod:
		return r.Method, true
	case fieldHost:
		return r.Host, true
	case fieldPath:
		return r.Path, true
	case fieldProtocol:
		return r.Protocol, true
	case fieldError:
		return r.Error, true
	case fieldRoute:
		return r.Route, true
	case fieldUpstream:
		return r.Upstream, true
	case fieldEndpoint:
		return r.Endpoint, true
	case fieldVersion:
		return r.Version, true
	case fieldUserAgent:
		return r.UserAgent, true
	case fieldConsumer:
		return r.Consumer, true
	}
	return "", false
}

// appendFigure writes the value of a field that is a number, an address or a
// time.
func appendFigure(dst []byte, r *Record, field int) []byte {
	switch field {
	case fieldTime:
		return appendTime(dst, r.Time)
	case fieldClientIP:
		return appendClient(dst, r)
	case fieldStatus:
		return strconv.AppendInt(dst, int64(r.Status), 10)
	case fieldBytesIn:
		return strconv.AppendInt(dst, r.BytesIn, 10)
	case fieldBytesOut:
		return strconv.AppendInt(dst, r.BytesOut, 10)
	case fieldDuration:
		return appendMillis(dst, r.Duration)
	case fieldUpstreamDuration:
		return appendMillis(dst, r.UpstreamDuration)
	case fieldGatewayDuration:
		return appendMillis(dst, r.gatewayDuration())
	case fieldAttempts:
		return strconv.AppendInt(dst, int64(r.Attempts), 10)
	}
	panic(fmt.Sprintf("BUG: the access log has no field %d", field))
}

// appendTime writes RFC 3339 with milliseconds, in UTC.
func appendTime(dst []byte, t time.Time) []byte {
	dst = append(dst, '"')
	t = t.UTC()
	dst = t.AppendFormat(dst, time.RFC3339) // the one layout that package time writes without parsing it
	millis := t.Nanosecond() / int(time.Millisecond)
	dst = append(dst[:len(dst)-len("Z")], '.', byte('0'+millis/100), byte('0'+millis/10%10), byte('0'+millis%10))
	return append(dst, 'Z', '"')
}

func appendClient(dst []byte, r *Record) []byte {
	dst = append(dst, '"')
	if r.ClientIP.IsValid() {
		dst = r.ClientIP.AppendTo(dst)
	}
	return append(dst, '"')
}

// appendMillis writes a duration in milliseconds, to the microsecond. One below
// zero, of a clock that was set back, is zero.
func appendMillis(dst []byte, d time.Duration) []byte {
	micros := max(d.Round(time.Microsecond).Microseconds(), 0)
	dst = strconv.AppendInt(dst, micros/1000, 10)
	if rest := micros % 1000; rest != 0 {
		dst = append(dst, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// appendString writes a JSON string (RFC 8259 7). Control characters of any
// kind are escaped, so that a terminal does nothing with them, and so are the
// separators of Unicode at which some readers end a line; a byte that is not
// UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c < ' ' || c == '"' || c == '\\' || c == 0x7f {
				dst = append(dst, s[start:i]...)
				dst = appendEscape(dst, rune(c))
				start = i + 1
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 || r < 0xa0 || r == 0x2028 || r == 0x2029 {
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, r)
			start = i + size
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendEscape writes a character of the basic plane as a JSON escape.
func appendEscape(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}
