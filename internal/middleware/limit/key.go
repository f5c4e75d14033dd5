package limit

import (
	"strconv"

	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// keyOf is what an exchange is counted by. Of several keys each value has its length,
// so that no two lists of values are one text.
func keyOf(x *pipeline.Exchange, keys []model.Key) string {
	if len(keys) == 1 {
		value, _ := pipeline.KeyOf(x, &keys[0])
		return value
	}
	var room [256]byte
	text := room[:0]
	for i := range keys {
		value, _ := pipeline.KeyOf(x, &keys[i])
		text = strconv.AppendInt(text, int64(len(value)), 10)
		text = append(text, ':')
		text = append(text, value...)
	}
	return string(text)
}
