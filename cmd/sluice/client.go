package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

const defaultAdmin = "http://127.0.0.1:9901"

// client speaks with a running gateway's admin API.
type client struct {
	name  string // as the user wrote it
	base  string
	token string
	http  *http.Client
}

// adminFlag adds --admin and returns the client that it names, once parsed.
func adminFlag(cmd *cobra.Command) func() (*client, error) {
	value := cmd.Flags().String("admin", cmp.Or(os.Getenv("SLUICE_ADMIN"), defaultAdmin), "`URL` of the admin API of the running gateway (SLUICE_ADMIN; its token: SLUICE_ADMIN_TOKEN)")
	return func() (*client, error) { return newClient(*value) }
}

// newClient returns the client of a URL, of host:port or of unix:PATH.
func newClient(name string) (*client, error) {
	c := &client{name: name, base: name, token: os.Getenv("SLUICE_ADMIN_TOKEN"), http: &http.Client{Timeout: 30 * time.Second}}
	if path, ok := strings.CutPrefix(name, "unix:"); ok {
		c.base = "http://localhost"
		c.http.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}
	} else if !strings.Contains(name, "://") {
		c.base = "http://" + name
	}
	c.base = strings.TrimSuffix(c.base, "/")
	if base, err := url.Parse(c.base); err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, &usageError{fmt.Errorf("--admin: %q is no URL such as %s", name, defaultAdmin)}
	}
	return c, nil
}

// get decodes the JSON at a path of the API.
func (c *client) get(cmd *cobra.Command, path string, query url.Values, into any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.do(cmd, http.MethodGet, path, nil, into)
}

// post sends JSON to a path of the API, and decodes the answer.
func (c *client) post(cmd *cobra.Command, path string, value, into any) error {
	body, err := json.Marshal(value)
	if err != nil {
		panic("BUG: what a command sends has no JSON: " + err.Error())
	}
	return c.do(cmd, http.MethodPost, path, bytes.NewReader(body), into)
}

func (c *client) do(cmd *cobra.Command, method, path string, sent io.Reader, into any) error {
	request, err := http.NewRequestWithContext(cmd.Context(), method, c.base+path, sent)
	if err != nil {
		return &usageError{fmt.Errorf("--admin: %w", err)}
	}
	if sent != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("no gateway answers at %s: %w (another one is named with --admin or SLUICE_ADMIN)", c.name, cause(err))
	}
	defer func() { _ = response.Body.Close() }() // all of it was read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	var problem struct{ Detail, Error string }
	switch {
	case response.StatusCode == http.StatusOK:
		err = json.Unmarshal(body, into)
	case json.Unmarshal(body, &problem) != nil || problem.Error == "":
		err = errors.New("status " + response.Status)
	case response.StatusCode == http.StatusUnauthorized && c.token == "":
		return fmt.Errorf("the gateway at %s needs its token: set SLUICE_ADMIN_TOKEN", c.name)
	case response.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("the gateway at %s does not accept the token in SLUICE_ADMIN_TOKEN", c.name)
	case response.StatusCode == http.StatusBadRequest: // it is the question that is wrong
		return &usageError{fmt.Errorf("the gateway at %s: %s", c.name, problem.Detail)}
	default:
		return fmt.Errorf("the gateway at %s: %s", c.name, problem.Detail)
	}
	if err != nil {
		return fmt.Errorf("what answers at %s is not Sluice's admin API: %w", c.name, err)
	}
	return nil
}

// cause is what the system says, where it does, without what was asked.
func cause(err error) error {
	var number syscall.Errno
	var asked *url.Error
	switch {
	case errors.As(err, &number):
		return number
	case errors.As(err, &asked):
		return asked.Err
	}
	return err
}

// printJSON writes a value as indented JSON.
func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
