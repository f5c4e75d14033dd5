package wire

import "bytes"

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
