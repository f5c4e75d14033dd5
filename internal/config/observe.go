package config

import (
	"fmt"
	"io/fs"

	"sluice/internal/canonical"
	"sluice/internal/model"
	"sluice/internal/regularfile"
)

func (r *resolver) accessLog(l *accessLog) {
	if l.broken {
		return
	}
	log := model.AccessLog{Output: l.Output, Format: l.Format, Sample: float64(l.Sample), Fields: l.Fields}
	switch l.Output {
	case "stdout", "stderr", "none":
	case "":
		r.out.add(l.below("output"), "output must be stdout, stderr, none or a path, and is empty", "")
	default:
		log.Output = absolute(l.src.Dir, l.Output)
		r.look(l.below("output"), "output", log.Output, func(mode fs.FileMode) string {
			if mode.IsDir() {
				return regularfile.ErrDirectory.Error()
			}
			return ""
		})
	}
	switch {
	case l.Fields != nil && len(l.Fields) == 0:
		r.out.add(l.below("fields"), "fields is an empty list", "leave the key out for all fields, or write output: none")
	case l.Fields != nil && l.Format != "json":
		r.out.add(l.below("fields"), fmt.Sprintf("fields needs the format json: the fields of %s are fixed", l.Format), "remove fields, or write format: json")
	}
	for i, path := range l.Skip {
		canonicalPath, err := canonical.Path(path, canonical.Options{EncodedSlash: canonical.Keep})
		if err != nil {
			r.out.add(l.below(fmt.Sprintf("skip[%d]", i)), fmt.Sprintf("skip[%d]: %v", i, err), "write a path such as /healthz")
		}
		log.Skip = append(log.Skip, canonicalPath)
	}
	r.gateway.AccessLog = log
}

func (r *resolver) metrics(m *metrics) {
	if !m.broken && m.MaxSeries < 1 {
		r.out.add(m.below("max_series_per_family"), "max_series_per_family must be at least 1", "")
	}
	r.gateway.MaxSeries = m.MaxSeries
}
