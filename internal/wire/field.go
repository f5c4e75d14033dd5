package wire

import (
	"slices"

	"sluice/internal/canonical"
	"sluice/internal/message"
)

// place is where a section stands.
type place uint8

const (
	inRequest place = iota
	inResponse
	inTrailer
)

// section is a section of field lines: those that stay, and what the ones that
// concern the connection and the framing say.
type section struct {
	fields message.Fields
	place  place

	host      string
	hosts     int
	length    int64 // of Content-Length
	lengths   int
	told      string // the first Content-Length, as it was spelled
	codings   int    // lines of Transfer-Encoding
	chunked   bool
	foreign   bool // codings other than chunked
	close     bool
	keepAlive bool
	upgrades  bool // Connection names Upgrade
	offers    bool // there is an Upgrade
	expects   bool // 100-continue
}

// parse reads field lines: those of data from at to stop. Behind stop there is
// at least one byte, and every LF there and before stands behind a CR. head is
// the text of data from offset on; names and values are parts of it.
func (s *section) parse(data []byte, head string, offset, at, stop, most int) error {
	fields := s.fields
	for count := 1; at < stop; count++ {
		if most > 0 && count > most {
			return ErrTooManyFields
		}
		colon := at
		for token[data[colon]] {
			colon++
		}
		if data[colon] != ':' || colon == at {
			return nameFault(data[at:stop], colon-at)
		}
		value := colon + 1
		for data[value] == ' ' || data[value] == '\t' {
			value++
		}
		end := control(data, value)
		if data[end] != '\r' {
			return ErrFieldValue
		}
		if data[end+1] != '\n' {
			return ErrBareCR
		}
		name := head[at-offset : colon-offset]
		at = end + 2
		for end > value && (data[end-1] == ' ' || data[end-1] == '\t') {
			end--
		}
		field := message.Field{Name: name, Value: head[value-offset : end-offset], ID: message.Lookup(name)}
		switch {
		case s.place == inTrailer:
			if ForbiddenTrailer(field) {
				continue
			}
		case field.ID != message.Other:
			dropped, err := s.look(&field)
			if err != nil {
				return err
			}
			if dropped {
				continue
			}
		}
		fields = append(fields, field)
	}
	s.fields = fields
	return nil
}

// nameFault says what is wrong with a line whose name ends before byte i
// without a colon, or is empty.
func nameFault(line []byte, i int) error {
	switch c := line[i]; {
	case i == 0 && (c == ' ' || c == '\t'):
		return ErrFold
	case c == ' ' || c == '\t':
		return ErrNameSpace
	case c == '\r' && line[i+1] == '\n':
		return ErrNoColon
	case c == '\r':
		return ErrBareCR
	}
	return ErrFieldName
}

// look takes from a field what concerns the connection and the framing. dropped
// says that it does not stay among the fields.
func (s *section) look(field *message.Field) (dropped bool, err error) {
	switch field.ID {
	case message.Host:
		if s.place != inRequest {
			return false, nil
		}
		s.hosts++
		s.host = field.Value
		switch {
		case s.hosts > 1:
			err = ErrTwoHosts
		case !canonical.ValidAuthority(field.Value):
			err = ErrHost
		}
		return true, err
	case message.ContentLength:
		return true, s.lookLength(field.Value)
	case message.TransferEncoding:
		return true, s.lookCoding(field.Value)
	case message.Connection:
		s.lookConnection(field.Value)
	case message.Upgrade:
		s.offers = true
	case message.Expect:
		s.expects = s.expects || fold(field.Value, "100-continue")
	case message.Trailer:
		return false, checkAnnounced(field.Value)
	}
	return false, nil
}

// lookLength reads a Content-Length. Equal repeats are one, as RFC 9110 8.6
// allows, if they are separate lines and spelled alike; a list is refused.
func (s *section) lookLength(value string) error {
	if s.lengths++; s.lengths > 1 {
		if value != s.told {
			return ErrLengths
		}
		return nil
	}
	s.told = value
	if value == "" {
		return ErrLength
	}
	const most = 1<<63 - 1
	for i := range len(value) {
		c := value[i] - '0'
		if c > 9 || s.length > (most-int64(c))/10 {
			return ErrLength
		}
		s.length = s.length*10 + int64(c)
	}
	return nil
}

// lookCoding reads a line of Transfer-Encoding. Codings before chunked make no
// error yet: that they are unknown counts less than what is malformed.
func (s *section) lookCoding(value string) error {
	s.codings++
	for more := true; more; {
		var coding string
		coding, value, more = member(value)
		if s.chunked {
			return ErrChunkedNotLast
		}
		if fold(coding, "chunked") {
			s.chunked = true
			continue
		}
		name := coding
		for i := range len(coding) {
			if coding[i] == ';' { // parameters
				name = trim(coding[:i])
				break
			}
		}
		if !isToken(name) || fold(name, "chunked") {
			return ErrCoding
		}
		s.foreign = true
	}
	return nil
}

func (s *section) lookConnection(value string) {
	for more := true; more; {
		var option string
		option, value, more = member(value)
		switch {
		case fold(option, "close"):
			s.close = true
		case fold(option, "keep-alive"):
			s.keepAlive = true
		case fold(option, "upgrade"):
			s.upgrades = true
		}
	}
}

// checkAnnounced refuses a Trailer that names what no trailer can tell.
func checkAnnounced(value string) error {
	for more := true; more; {
		var name string
		name, value, more = member(value)
		switch message.Lookup(name) {
		case message.ContentLength, message.TransferEncoding, message.Trailer:
			return ErrTrailerName
		}
	}
	return nil
}

// room makes place for as many fields as lines were seen, in one step. The
// caller's own array does if it is large enough.
func room(fields message.Fields, lines, most int) message.Fields {
	if most > 0 {
		lines = min(lines, most)
	}
	return slices.Grow(fields, lines)
}

// framing is what the section says about the body and the connection, as far as
// requests and responses have in common.
func (s *section) framing(protocol message.Protocol) (Framing, error) {
	f := Framing{Upgrade: s.upgrades && s.offers && protocol == message.HTTP11}
	if protocol == message.HTTP10 {
		f.KeepAlive = s.keepAlive && !s.close
		f.Close = !f.KeepAlive
	} else {
		f.Close = s.close
	}
	switch {
	case s.codings > 0 && protocol == message.HTTP10:
		return f, ErrCodingIn10
	case s.codings > 0 && s.lengths > 0:
		return f, ErrLengthAndCoding
	case s.foreign:
		return f, ErrUnknownCoding
	case s.chunked:
		f.Body, f.Length = ChunkedBody, message.Unknown
	case s.length > 0:
		f.Body, f.Length = Sized, s.length
	}
	return f, nil
}
