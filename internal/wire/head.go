package wire

import "bytes"

// Scan is how far the calls for one head have read, so that a head which comes
// byte by byte is not read from its beginning each time. The zero value is for
// the first call; when the head is there it is zero again, for the next.
type Scan struct {
	seen   int // bytes that were looked at
	target int // of a request line: where its target begins, once that shows
	end    int // and where that ends
	line   int // where the start line ends, once that shows
	lines  int // line ends behind it
}

// startLine looks for the end of the start line, which begins at start; 0: it has
// not come. first says that this call has found it.
func (s *Scan) startLine(data []byte, start int) (line int, first bool) {
	if s.line == 0 {
		from := max(start, s.seen)
		if s.line = bytes.IndexByte(data[from:], '\n') + 1; s.line > 0 {
			s.line += from
			first = true
		}
	}
	return s.line, first
}

// ends looks for the end of the head, as the function of that name does.
func (s *Scan) ends(data []byte) (end, lines int, err error) {
	end, lines, err = ends(data, max(s.line, s.seen))
	s.lines += lines
	return end, s.lines, err
}

// window is what of data may be looked at: HeaderBytes from start on.
func window(data []byte, start int, limits Limits) []byte {
	if most := limits.HeaderBytes; most > 0 && len(data)-start > most {
		return data[:start+most]
	}
	return data
}

// ends finds the empty line that ends a head, from the beginning of a field
// line, or of a part of one, on. It returns where the head ends, 0 while that
// has not come, and how many line ends it saw. The byte before from is there.
func ends(data []byte, from int) (end, lines int, err error) {
	for i := from; ; i++ {
		next := bytes.IndexByte(data[i:], '\n')
		if next < 0 {
			return 0, lines, nil
		}
		i += next
		if data[i-1] != '\r' {
			return 0, lines, ErrBareLF
		}
		if data[i-2] == '\n' {
			return i + 1, lines, nil
		}
		lines++
	}
}

// incomplete is the verdict on a head whose end is not in sight.
func incomplete(data, seen []byte) error {
	if len(seen) < len(data) {
		return ErrHeaderTooLarge
	}
	return nil
}
