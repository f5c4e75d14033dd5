package telemetry

import "strconv"

// appendCommon writes a record in the Common Log Format: address, "-",
// consumer, time, request line, status, bytes.
func appendCommon(dst []byte, r *Record) []byte {
	return append(appendCommonPart(dst, r), '\n')
}

// appendCombined is appendCommon with the Referer and the User-Agent.
func appendCombined(dst []byte, r *Record) []byte {
	dst = appendCommonPart(dst, r)
	dst = append(dst, ' ', '"')
	dst = appendQuoted(dst, r.Referer)
	dst = append(dst, '"', ' ', '"')
	dst = appendQuoted(dst, r.UserAgent)
	return append(dst, '"', '\n')
}

func appendCommonPart(dst []byte, r *Record) []byte {
	if r.ClientIP.IsValid() {
		dst = r.ClientIP.AppendTo(dst)
	} else {
		dst = append(dst, '-')
	}
	dst = append(dst, " - "...)
	dst = appendWord(dst, r.Consumer)
	dst = append(dst, " ["...)
	dst = r.Time.AppendFormat(dst, "02/Jan/2006:15:04:05 -0700")
	dst = append(dst, `] "`...)
	if r.Method == "" { // a request that never got so far as to have a line
		dst = append(dst, '-')
	} else {
		dst = appendEscaped(dst, r.Method, true)
		dst = append(dst, ' ')
		dst = appendEscaped(dst, r.Path, true)
		dst = appendEscaped(dst, r.Query, true)
		dst = append(dst, ' ')
		dst = appendEscaped(dst, r.Protocol, true)
	}
	dst = append(dst, '"', ' ')
	dst = strconv.AppendInt(dst, int64(r.Status), 10)
	dst = append(dst, ' ')
	return strconv.AppendInt(dst, r.BytesOut, 10)
}

// appendQuoted writes what stands between quotes; "-" for nothing.
func appendQuoted(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, '-')
	}
	return appendEscaped(dst, s, false)
}

// appendWord writes what stands between spaces; "-" for nothing.
func appendWord(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, '-')
	}
	return appendEscaped(dst, s, true)
}

// appendEscaped writes printable ASCII as it is and every other byte, quotes
// and backslashes as \xHH, so that no value ends its field or its line; a space
// too where it would part words.
func appendEscaped(dst []byte, s string, word bool) []byte {
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c >= 0x7f || c == '"' || c == '\\' || word && c == ' ' {
			dst = append(dst, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
			continue
		}
		dst = append(dst, c)
	}
	return dst
}
