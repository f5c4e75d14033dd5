package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"sluice/internal/config"
	"sluice/internal/snapshot"
	"sluice/internal/upstream"
)

// maxBody bounds the body of a write, in bytes.
const maxBody = 64 << 10

// maxListed bounds how many names an answer lists for whoever asked for another.
const maxListed = 20

// drain lets an endpoint get no new attempt, or such again, and answers with how it
// is then. What is under way goes on; so does the drain over reloads.
func (a *API) drain(drained bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := a.serving(w)
		if s == nil {
			return
		}
		var asked struct {
			URL string `json:"url"`
		}
		if !decode(w, r, &asked) {
			return
		}
		if asked.URL == "" {
			problem(w, http.StatusBadRequest, "bad_request", `The body has no url; send {"url": "http://HOST:PORT"}.`)
			return
		}
		group, ok := groupOf(w, s, r.PathValue("upstream"))
		if !ok {
			return
		}
		urls := written(group, asked.URL)
		if len(urls) == 0 {
			var there []string
			for _, e := range group.Status(time.Now()).Endpoints {
				there = append(there, e.URL)
			}
			problem(w, http.StatusNotFound, "not_found", fmt.Sprintf("The upstream %s has no endpoint %q; %s", group.Name(), asked.URL, listed(there)))
			return
		}
		for _, url := range urls {
			group.Drain(url, drained)
		}
		endpoints := group.Status(time.Now()).Endpoints
		at := slices.IndexFunc(endpoints, func(e upstream.EndpointStatus) bool { return e.URL == urls[0] })
		if at < 0 { // it is looked up, and has gone just now
			problem(w, http.StatusNotFound, "not_found", fmt.Sprintf("The upstream %s has the endpoint %q no more.", group.Name(), asked.URL))
			return
		}
		a.json(w, endpoints[at])
	})
}

// groupOf is the upstream with a name, or answers that there is none.
func groupOf(w http.ResponseWriter, s *snapshot.Snapshot, name string) (*upstream.Group, bool) {
	var names []string
	for _, group := range s.Upstreams {
		if group.Name() == name {
			return group, true
		}
		names = append(names, group.Name())
	}
	problem(w, http.StatusNotFound, "not_found", fmt.Sprintf("No upstream is called %q; %s", name, listed(names)))
	return nil, false
}

// written are the URLs, as the documents have them, of the endpoints that a URL
// names in whatever way: http://HOST and http://host:80/ are one.
func written(group *upstream.Group, url string) (urls []string) {
	asked, err := config.ParseEndpoint(url)
	for _, e := range group.Status(time.Now()).Endpoints {
		same := e.URL == url
		if own, bad := config.ParseEndpoint(e.URL); err == nil && bad == nil {
			same = same || own.Place() == asked.Place()
		}
		if same && !slices.Contains(urls, e.URL) {
			urls = append(urls, e.URL)
		}
	}
	return urls
}

// listed says what there is.
func listed(names []string) string {
	switch {
	case len(names) == 0:
		return "there is none."
	case len(names) > maxListed:
		return fmt.Sprintf("there are %s and %d more.", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
	case len(names) == 1:
		return "there is " + names[0] + "."
	}
	return "there are " + strings.Join(names, ", ") + "."
}

// decode reads the JSON of a write, or answers what is wrong with it. The type of
// the body does not count: a page of another origin is refused by its Origin.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		problem(w, http.StatusRequestEntityTooLarge, "body_too_large", fmt.Sprintf("The body is larger than %d KiB.", maxBody>>10))
		return false
	case err != nil:
		problem(w, http.StatusBadRequest, "bad_request", "The body broke off.")
		return false
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(into)
	if err == nil && decoder.Decode(&struct{}{}) != io.EOF {
		err = errors.New("something follows the object")
	}
	if err != nil {
		problem(w, http.StatusBadRequest, "bad_request", "The body is not the JSON that is asked for: "+strings.TrimPrefix(err.Error(), "json: ")+".")
		return false
	}
	return true
}
