package external

import (
	"errors"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/grpc/codes"

	"sluice/internal/message"
)

var (
	errSenseless = errors.New("the service's answer says neither yes nor no")
	errOwn       = errors.New("the service answers that it failed")
)

// decisionOf is what an answer says. One that contradicts itself, or cannot be obeyed
// as it stands, says nothing.
func decisionOf(s *settings, answer *authv3.CheckResponse) (*decision, error) {
	code := codes.OK
	if status := answer.GetStatus(); status != nil {
		code = codes.Code(status.GetCode())
	}
	switch said := answer.GetHttpResponse().(type) {
	case *authv3.CheckResponse_ErrorResponse:
		return nil, errOwn
	case *authv3.CheckResponse_OkResponse:
		if code != codes.OK {
			return nil, errSenseless
		}
		return allowed(s, said.OkResponse)
	case *authv3.CheckResponse_DeniedResponse:
		if code == codes.OK {
			return nil, errSenseless
		}
		return denied(said.DeniedResponse), nil
	}
	switch {
	case answer.GetStatus() == nil:
		return nil, errSenseless
	case code == codes.OK:
		return &decision{allowed: true}, nil
	}
	return &decision{status: 403}, nil
}

// allowed is what becomes of a request that may pass.
func allowed(s *settings, ok *authv3.OkHttpResponse) (*decision, error) {
	made := &decision{allowed: true}
	for _, name := range ok.GetHeadersToRemove() {
		if !editable(name) {
			return nil, fmt.Errorf("the service removes the field %q, which it may not", name)
		}
		made.request = append(made.request, edit{remove, name, ""})
	}
	for _, option := range ok.GetHeaders() {
		e, err := editOf(option, false)
		if err != nil {
			return nil, err
		}
		made.request = append(made.request, e)
	}
	for _, option := range ok.GetResponseHeadersToAdd() {
		e, err := editOf(option, true)
		if err != nil {
			return nil, err
		}
		made.response = append(made.response, e)
		made.alone = true // as a cookie of one client
	}
	for _, name := range ok.GetQueryParametersToRemove() {
		made.query = append(made.query, parameter{name: name, remove: true})
	}
	for _, p := range ok.GetQueryParametersToSet() {
		made.query = append(made.query, parameter{name: p.GetKey(), value: p.GetValue()})
	}
	err := made.identify(s.Consumer, s.Groups, func(name string) (values []string) {
		for _, e := range made.request {
			if e.how != remove && strings.EqualFold(e.name, name) {
				values = append(values, e.value)
			}
		}
		return values
	})
	return made, err
}

// editOf is a change of a field. Without a word on it, one of a request takes the place
// of what is there, and one of a response is added.
func editOf(option *corev3.HeaderValueOption, ofResponse bool) (edit, error) {
	name, value := option.GetHeader().GetKey(), valueOf(option.GetHeader())
	if !editable(name) || !httpguts.ValidHeaderFieldValue(value) {
		return edit{}, fmt.Errorf("the service sets the field %q, or a value of it, which it may not", name)
	}
	e := edit{replace, name, value}
	switch action := option.GetAppendAction(); {
	case option.GetAppend() != nil: //nolint:staticcheck // SA1019: services still say it
		if option.GetAppend().GetValue() { //nolint:staticcheck // SA1019: alike
			e.how = add
		}
	case action == corev3.HeaderValueOption_ADD_IF_ABSENT:
		e.how = addNew
	case action == corev3.HeaderValueOption_OVERWRITE_IF_EXISTS:
		e.how = replaced
	case action == corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD && ofResponse:
		e.how = add
	}
	return e, nil
}

func valueOf(header *corev3.HeaderValue) string {
	if raw := header.GetRawValue(); len(raw) > 0 {
		return string(raw)
	}
	return header.GetValue()
}

// denied is what the client is answered. What of it is no answer is left out: it
// remains a refusal.
func denied(said *authv3.DeniedHttpResponse) *decision {
	made := &decision{status: int(said.GetStatus().GetCode()), body: said.GetBody()}
	if made.status < 200 || made.status > 599 {
		made.status = 403
	}
	for _, option := range said.GetHeaders() {
		e, err := editOf(option, true)
		if err != nil || !passes(e.name, nil) {
			continue
		}
		apply([]edit{e}, made.fields.Delete, &made.fields)
		made.alone = made.alone || message.Lookup(e.name) == message.SetCookie
	}
	if len(made.body) > largestBody || bodiless(made.status) {
		made.body = ""
	}
	return made
}
