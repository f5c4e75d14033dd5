package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/config"
	"sluice/internal/model"
)

// valueOptions has every type that an option may have.
type valueOptions struct {
	Duration config.Duration                      `config:"duration"`
	Size     config.Size                          `config:"size"`
	Bytes    config.ByteRate                      `config:"bytes"`
	Rate     config.Rate                          `config:"rate"`
	Percent  config.Percent                       `config:"percent"`
	Prefix   config.Prefix                        `config:"prefix"`
	Text     string                               `config:"text"`
	Number   int                                  `config:"number"`
	Factor   config.Number                        `config:"factor"`
	Small    int32                                `config:"small"`
	Flag     *bool                                `config:"flag"`
	Names    []string                             `config:"names" enum:"a|b"`
	One      *string                              `config:"one" enum:"a|b"`
	Inner    *innerOptions                        `config:"inner"`
	Many     []innerOptions                       `config:"many"`
	Mapped   config.Map[[]int]                    `config:"mapped"`
	Deep     config.Map[config.Map[innerOptions]] `config:"deep"`
}

type innerOptions struct {
	Level int `config:"level"`
}

func (o *innerOptions) SetDefaults() { o.Level = 7 }

// decode decodes options; nil where they are refused.
func decode(text string) (got *valueOptions, problems []model.Problem) {
	kinds := []config.Kind{{
		Name:    "value",
		Options: func() any { return &valueOptions{} },
		Validate: func(options any, _ model.Report) any {
			got, _ = options.(*valueOptions)
			return got
		},
	}}
	documents := []config.Document{{Name: "x", Data: []byte(listen + "global: [{value: " + text + "}]\n")}}
	problems = config.Resolve(documents, kinds, testEnvironment(map[string]string{"N": "5"})).Problems
	return got, problems
}

func TestValues(t *testing.T) {
	for text, want := range map[string]string{
		"duration: 250ms": "250ms", "duration: 1h30m": "1h30m", "duration: 0": "0", "duration: 120s": "2m", "duration: 90m": "1h30m", "duration: 24h": "24h", "duration: 1.5s": "1.5s",
		"size: 64KiB": "64KiB", "size: 10MB": "10MB", "size: 1000": "1kB", "size: 7": "7", "size: 0": "0", "size: 1.5KiB": "1536", "size: 2 GiB": "2GiB", "size: 5kB": "5kB", "size: 12B": "12",
		"factor: 0.2": "0.2", "factor: 2": "2", "factor: 1e-3": "0.001", "factor: .5": "0.5", "factor: 0": "0", "factor: '${N}'": "5",
		"bytes: 240B/s": "240B/s", "bytes: 1KiB/s": "1KiB/s", "bytes: 0": "0B/s",
		"rate: 100/s": "100/s", "rate: 5000/m": "5000/m", "rate: 10/h": "10/h",
		"percent: 20%": "20%", "percent: 0%": "0%", "percent: 100%": "100%", "percent: 0.5%": "0.5%",
		"prefix: 10.0.0.0/8": "10.0.0.0/8", "prefix: 10.1.2.3": "10.1.2.3/32", "prefix: '::1'": "::1/128", "prefix: '::ffff:10.0.0.1'": "10.0.0.1/32", "prefix: 'fd00::/8'": "fd00::/8",
		"number: -5": "-5", "number: +5": "5", "number: 010": "10", "number: 0x10": "16", "number: 0o10": "8", "number: '${N}'": "5",
	} {
		key, _, _ := strings.Cut(text, ":")
		got, problems := decode("{" + text + "}")
		if got == nil || len(problems) > 0 {
			t.Errorf("%s: %v", text, problems)
			continue
		}
		value := map[string]any{"duration": got.Duration, "size": got.Size, "bytes": got.Bytes, "rate": got.Rate, "percent": got.Percent, "prefix": got.Prefix, "number": got.Number, "factor": got.Factor}[key]
		if said := fmt.Sprint(value); said != want {
			t.Errorf("%s: got %s, want %s", text, said, want)
		}
	}
}

func TestBadValues(t *testing.T) {
	for _, text := range []string{
		"duration: x", "duration: 5", "duration: -1s", "duration: ''", "duration: {}", "duration: 1e400h",
		"size: x", "size: -1", "size: 1.0000001", "size: 9999999999TiB", "size: 64 k", "size: ''", "size: KiB", "size: 1e3KiB7", "size: 0x", "size: .5B", "size: 99999999999999999999",
		"bytes: 240", "bytes: 240B", "bytes: -1B/s", "bytes: /s",
		"rate: 100", "rate: /s", "rate: 0/s", "rate: -1/s", "rate: 1/d", "rate: 1.5/s", "rate: 1/s/s",
		"percent: 20", "percent: -1%", "percent: 101%", "percent: '%'", "percent: NaN%", "percent: .inf%", "percent: 0x1p-2%",
		"factor: x", "factor: -1", "factor: .inf", "factor: .nan", "factor: 1e400", "factor: 0x10", "factor: '0.2'", "factor: 20%", "factor: ''",
		"prefix: x", "prefix: 10.0.0.1/8", "prefix: 10.0.0.0/33", "prefix: 'fe80::1%eth0'", "prefix: ''",
		"number: 1.0", "number: 1e3", "number: '5'", "number: true", "number: 9223372036854775808", "small: 2147483648",
		"flag: yes", "flag: 1", "flag: 'true'", "names: [c]", "names: [[a]]", "one: c", "one: [a]", "text: 5", "text: null", "text: {}", "inner: 5", "many: {}", "mapped: [1]", "mapped: {a: [x]}",
	} {
		_, problems := decode("{" + text + "}")
		if len(problems) != 1 || problems[0].Line != 2 || problems[0].Col < 19 || problems[0].Warning {
			t.Errorf("%s: %v", text, problems)
		}
	}
}

// TestRateHints says how what is meant as a rate is written, where that is plain.
func TestRateHints(t *testing.T) {
	for rate, want := range map[string]string{
		"100": "say in which time: 100/s", "0.5": "", "x": "", "x/s": "", "-1/m": "", ".inf/s": "", "1e300/s": "",
		"0.5/s": "write 30/m", "0.01/s": "write 36/h", "1.5/h": "", "2.5/m": "write 150/h", "1e3/s": "write 1000/s",
		"10/min": "write 10/m", "10/Minutes": "write 10/m", "10/sec": "write 10/s", "10/hours": "write 10/h", "10/hr": "write 10/h", "1 / s": "write 1/s",
		"1/ms": "", "10/10s": "", "24/d": "the longest time is an hour", "5/days": "the longest time is an hour",
	} {
		_, problems := decode("{rate: " + rate + "}")
		if len(problems) != 1 || problems[0].Hint != want {
			t.Errorf("%s: %v, want the hint %q", rate, problems, want)
		}
	}
}

func TestStructures(t *testing.T) {
	got, problems := decode("{flag: false, names: [a, b, a], one: b, inner: {}, many: [{level: 1}, {}], mapped: {z: [1, 2], a: []}, deep: {x: {y: {}, b: {level: 2}}}}")
	if got == nil {
		t.Fatal(problems)
	}
	if got.Flag == nil || *got.Flag || got.One == nil || *got.One != "b" || got.Inner == nil || got.Inner.Level != 7 || got.Many[0].Level != 1 || got.Many[1].Level != 7 {
		t.Errorf("%+v", got)
	}
	var keys []string
	for _, entry := range got.Mapped {
		keys = append(keys, fmt.Sprint(entry.Key, entry.Value))
	}
	for _, entry := range got.Deep[0].Value {
		keys = append(keys, fmt.Sprint(entry.Key, entry.Value.Level))
	}
	if diff := cmp.Diff([]string{"z[1 2]", "a[]", "y7", "b2"}, keys); diff != "" {
		t.Error(diff)
	}
	if empty, problems := decode(""); empty == nil || empty.Inner != nil || empty.Flag != nil {
		t.Error(empty, problems)
	}
}

func TestDurationText(t *testing.T) {
	for duration, want := range map[time.Duration]string{0: "0", time.Hour: "1h", 61 * time.Second: "1m1s", time.Millisecond: "1ms", 3660 * time.Second: "1h1m", 10 * time.Minute: "10m", 20 * time.Hour: "20h"} {
		if got := config.Duration(duration).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
