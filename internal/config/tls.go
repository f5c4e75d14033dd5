package config

import (
	"crypto/tls"
	"fmt"
	"net/mail"
	"net/netip"
	"net/url"
	"strings"

	"sluice/internal/model"
	"sluice/internal/pemfile"
)

type listenerTLS struct {
	located
	Certificates []certificateFile `config:"certificates" doc:"certificates from files, picked by the name that a client asks for; the first one is for all others. Files that change are taken up at once"`
	ACME         *acme             `config:"acme" doc:"certificates that are ordered and renewed by themselves"`
	MinVersion   string            `config:"min_version" enum:"1.2|1.3" doc:"the oldest version of TLS"`
	ClientAuth   clientAuth        `config:"client_auth" doc:"certificates that clients show"`
}

// SetDefaults sets the defaults of SPEC 3.
func (t *listenerTLS) SetDefaults() {
	t.MinVersion = "1.2"
	t.ClientAuth.Mode = model.ClientAuthNone
}

type certificateFile struct {
	located
	Cert string `config:"cert,required" doc:"a PEM file: the certificate, and its chain"`
	Key  string `config:"key,required" doc:"a PEM file: its private key"`
}

type clientAuth struct {
	Mode    string `config:"mode" enum:"none|optional|require" doc:"whether a client may or must show one"`
	CA      string `config:"ca" doc:"a PEM file: the authorities that clients' certificates must come from"`
	Forward bool   `config:"forward" doc:"whether endpoints are told of it, by X-Forwarded-Client-Cert"`
}

type acme struct {
	located
	Email     string   `config:"email" doc:"whom the directory may write to"`
	Domains   []string `config:"domains,required" doc:"the names to order certificates for"`
	Directory string   `config:"directory" doc:"the URL of the directory"`
	CAFile    string   `config:"ca_file" doc:"a PEM file: the authorities that the directory's own certificate must come from" default:"the system's"`
	Storage   *string  `config:"storage" doc:"the directory that keeps certificates and accounts" default:"./acme"`
	Store     string   `config:"store" doc:"instead of storage: the name of a store that several instances share"`
}

// SetDefaults sets the usual directory.
func (a *acme) SetDefaults() { a.Directory = "https://acme-v02.api.letsencrypt.org/directory" }

// clientTLS is how the gateway speaks TLS to others.
type clientTLS struct {
	located
	CA         string `config:"ca" doc:"a PEM file: the authorities that the certificate must come from" default:"the system's"`
	Cert       string `config:"cert" doc:"a PEM file: the certificate to show"`
	Key        string `config:"key" doc:"a PEM file: its private key"`
	ServerName string `config:"server_name" doc:"the name that the certificate must have" default:"the host of the address"`
	Insecure   bool   `config:"insecure_skip_verify" doc:"true: whatever certificate is believed"`
}

// tls builds how a listener speaks TLS; nil: in cleartext.
func (r *resolver) tls(l *listener) *model.ListenerTLS {
	t := l.TLS
	if t == nil {
		return nil
	}
	built := &model.ListenerTLS{MinVersion: tls.VersionTLS12, ClientAuth: model.ClientAuth{Mode: t.ClientAuth.Mode, Forward: t.ClientAuth.Forward}}
	if t.MinVersion == "1.3" {
		built.MinVersion = tls.VersionTLS13
	}
	if len(t.Certificates) == 0 && t.ACME == nil {
		r.out.add(t.place, "tls has no certificate to show", "write certificates: [{cert: FILE, key: FILE}], or acme: {domains: [NAME]}")
	}
	for i := range t.Certificates {
		c := &t.Certificates[i]
		built.Certificates = append(built.Certificates, model.CertificateFile{Cert: absolute(t.src.Dir, c.Cert), Key: absolute(t.src.Dir, c.Key)})
		r.lookAtPair(&c.located, c.Cert, c.Key, pemfile.CheckServer)
	}
	ca := t.below("client_auth.ca")
	switch mode := t.ClientAuth.Mode; {
	case mode != model.ClientAuthNone && t.ClientAuth.CA == "":
		r.out.add(t.below("client_auth"), fmt.Sprintf("client_auth: %s needs ca, the authorities that clients' certificates come from", mode), "write ca: FILE")
	case mode == model.ClientAuthNone && (t.ClientAuth.CA != "" || t.ClientAuth.Forward):
		r.out.add(t.below("client_auth"), "client_auth says what to do with clients' certificates, but its mode is none", "write mode: require, or mode: optional")
	case t.ClientAuth.CA != "":
		built.ClientAuth.CA = absolute(t.src.Dir, t.ClientAuth.CA)
		r.lookAtAuthorities(ca, "ca", built.ClientAuth.CA)
	}
	if t.ACME != nil {
		built.ACME = r.acme(t.ACME)
	}
	return built
}

func (r *resolver) acme(a *acme) *model.ACME {
	built := &model.ACME{Email: a.Email, Directory: a.Directory, Store: a.Store}
	if mailbox, err := mail.ParseAddress(a.Email); a.Email != "" && (err != nil || mailbox.Address != a.Email) {
		r.out.add(a.below("email"), fmt.Sprintf("email must be the address of a mailbox, not %s", short(a.Email)), "write NAME@HOST")
	}
	if len(a.Domains) == 0 {
		r.out.add(a.below("domains"), "domains is empty, so that nothing would be ordered", "")
	}
	for i, name := range a.Domains {
		where, key := a.below(fmt.Sprintf("domains[%d]", i)), fmt.Sprintf("domains[%d]", i)
		host, f := parseHost(name, false)
		_, err := netip.ParseAddr(host)
		switch {
		case strings.HasPrefix(name, "*."):
			r.out.add(where, fmt.Sprintf("%s is a wildcard, which can be proven by DNS alone", key), "name the hosts one by one, or use certificates from files")
		case f != nil:
			r.out.add(where, key+" "+f.message, f.hint)
		case err == nil:
			r.out.add(where, fmt.Sprintf("%s is an address, not a name", key), "")
		}
		built.Domains = append(built.Domains, host)
	}
	if u, err := url.Parse(a.Directory); err != nil || u.Scheme != "https" || u.Host == "" { // RFC 8555 6.1
		r.out.add(a.below("directory"), fmt.Sprintf("directory must be an https URL, not %s", short(a.Directory)), "write https://HOST/directory")
	}
	if a.CAFile != "" {
		built.CAFile = absolute(a.src.Dir, a.CAFile)
		r.lookAtAuthorities(a.below("ca_file"), "ca_file", built.CAFile)
	}
	switch {
	case a.Store != "" && a.Storage != nil:
		r.out.add(a.below("store"), "acme has both storage and store", "leave one of them out")
	case a.Store != "":
		r.storeNamed(a.below("store"), a.Store)
	case a.Storage != nil && *a.Storage == "":
		r.out.add(a.below("storage"), "storage is empty", "write the path of a directory, or leave the key out")
	case a.Storage != nil:
		built.Storage = r.lookAtStorage(a.below("storage"), "storage", a.src.Dir, *a.Storage)
	default:
		built.Storage = r.lookAtStorage(a.place, "storage", a.src.Dir, "acme")
	}
	return built
}

// clientTLS builds how the gateway speaks TLS to something; nil where nothing
// is said.
func (r *resolver) clientTLS(t *clientTLS) *model.ClientTLS {
	if t == nil {
		return nil
	}
	built := &model.ClientTLS{ServerName: t.ServerName, Insecure: t.Insecure}
	if t.ServerName != "" && !validHost(t.ServerName) {
		r.out.add(t.below("server_name"), fmt.Sprintf("server_name must be a name or an address, not %s", short(t.ServerName)), "")
	}
	if t.CA != "" {
		built.CA = absolute(t.src.Dir, t.CA)
		r.lookAtAuthorities(t.below("ca"), "ca", built.CA)
	}
	switch {
	case (t.Cert == "") != (t.Key == ""):
		r.out.add(t.place, "cert and key belong together: one of them is missing", "")
	case t.Cert != "":
		built.Cert, built.Key = absolute(t.src.Dir, t.Cert), absolute(t.src.Dir, t.Key)
		r.lookAtPair(&t.located, t.Cert, t.Key, pemfile.CheckPair)
	}
	if t.Insecure {
		if t.CA != "" || t.ServerName != "" {
			r.out.add(t.below("insecure_skip_verify"), "insecure_skip_verify leaves nothing to verify, so ca and server_name have no meaning", "remove it, or them")
		}
		r.out.warn(t.below("insecure_skip_verify"), "the other side's certificate is not verified: whoever is in between can read and change everything", "name its authority with ca")
	}
	return built
}

// protocols builds what clients may speak.
func (r *resolver) protocols(l *listener, address string) (protocols []string) {
	if l.Protocols == nil {
		return []string{model.H1, model.H2}
	}
	if len(l.Protocols) == 0 {
		r.out.add(l.below("protocols"), "protocols is an empty list, so that nobody could speak to the listener", "leave the key out, or write [h1]")
	}
	said := map[string]bool{}
	for i, word := range l.Protocols {
		where := l.below(fmt.Sprintf("protocols[%d]", i))
		switch {
		case word == "h2c" && l.TLS != nil:
			r.out.add(where, "h2c is HTTP/2 without TLS, and the listener has tls", "write h2")
		case word == model.H3 && l.TLS == nil:
			r.out.add(where, "h3 needs tls", "add tls with a certificate, or leave h3 out")
		case word == model.H3 && strings.HasPrefix(address, unixPrefix):
			r.out.add(where, "h3 needs an IP address, and the listener has a Unix socket", "leave h3 out")
		case word == model.H3 && l.ProxyProtocol:
			r.out.add(where, "proxy_protocol is for connections of TCP, and h3 has none", "leave h3 out, or give it a listener of its own")
		case word == "h2c":
			word = model.H2
		}
		said[word] = true
	}
	for _, word := range []string{model.H1, model.H2, model.H3} {
		if said[word] {
			protocols = append(protocols, word)
		}
	}
	return protocols
}
