package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const defaultAdmin = "http://127.0.0.1:9901"

// client asks a running gateway's admin API.
type client struct {
	base  string
	token string
	http  *http.Client
}

// adminFlag adds --admin and returns the client that it names, once parsed.
func adminFlag(cmd *cobra.Command) func() *client {
	value := cmd.Flags().String("admin", cmp.Or(os.Getenv("SLUICE_ADMIN"), defaultAdmin), "admin API of the running gateway (SLUICE_ADMIN; its token: SLUICE_ADMIN_TOKEN)")
	return func() *client {
		return &client{strings.TrimSuffix(*value, "/"), os.Getenv("SLUICE_ADMIN_TOKEN"), &http.Client{Timeout: 30 * time.Second}}
	}
}

// get decodes the JSON at a path of the API.
func (c *client) get(cmd *cobra.Command, path string, query url.Values, into any) error {
	address := c.base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, address, nil)
	if err != nil {
		return &usageError{fmt.Errorf("--admin: %w", err)}
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("no gateway answers at %s (name it with --admin or SLUICE_ADMIN): %w", c.base, err)
	}
	defer func() { _ = response.Body.Close() }() // all of it was read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		var problem struct{ Detail string }
		if json.Unmarshal(body, &problem) != nil || problem.Detail == "" {
			problem.Detail = response.Status
		}
		return fmt.Errorf("the gateway at %s: %s", c.base, problem.Detail)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("what answers at %s%s is no Sluice: %w", c.base, path, err)
	}
	return nil
}

// printJSON writes a value as indented JSON.
func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
