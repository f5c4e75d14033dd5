package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"sluice/internal/config"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// APIKeyOptions are the options of api_key.
type APIKeyOptions struct {
	Keys     []APIKey                 `config:"keys" doc:"the keys that are good"`
	KeysFile *config.ListFile[APIKey] `config:"keys_file" doc:"a YAML file with a list of more of them; taken up when it changes"`
	From     *FromOptions             `config:"from" doc:"where a request has its key" default:"{header: X-API-Key}"`
	Forward  bool                     `config:"forward" doc:"whether the destination gets the key as well"`
}

// APIKey is a key that is good.
type APIKey struct {
	Key      string   `config:"key,required" doc:"sha256: and the SHA-256 of the key, in hexadecimal"`
	Consumer string   `config:"consumer,required" doc:"whose key it is"`
	Tier     string   `config:"tier" doc:"the consumer's tier, for limits"`
	Groups   []string `config:"groups" doc:"the groups that the consumer is in"`
}

// apiKey is the settings of api_key.
type apiKey struct {
	Keys    string // digest of table
	From    place
	Forward bool

	table map[[sha256.Size]byte]*pipeline.Principal
}

// APIKeys is the kind api_key: a request without a key that is known is 401
// unauthenticated. Of keys it knows the digests only.
func APIKeys() pipeline.Kind {
	return pipeline.NewKind("api_key", func() *APIKeyOptions { return &APIKeyOptions{Forward: true} }, validateAPIKey,
		func(_ *pipeline.Site, k *apiKey) pipeline.Middleware { return k.middleware }).As(model.Authenticating)
}

func validateAPIKey(o *APIKeyOptions, report model.Report) *apiKey {
	k := &apiKey{From: placeOf(o.From, place{Header: "X-API-Key"}, "from", report), Forward: o.Forward, table: map[[sha256.Size]byte]*pipeline.Principal{}}
	all := entries[APIKey]{options: "keys", listed: o.Keys, file: "keys_file"}
	if o.KeysFile != nil {
		all.filed, all.where = o.KeysFile.Items, o.KeysFile.Where
	} else if len(o.Keys) == 0 {
		report("", "api_key has no keys, so that nobody could pass", "write keys: [{key: 'sha256:…', consumer: NAME}], or keys_file")
	}
	all.each(report, func(entry *APIKey, report func(key, message, hint string)) {
		digest, ok := digestOf(entry.Key)
		switch {
		case !ok: // the value is not told: it may be a key
			report("key", "key must be the digest of a key: sha256: and 64 hexadecimal digits", "printf %s KEY | sha256sum prints them")
		case k.table[digest] != nil:
			report("key", "the same key is here twice", "remove one of them")
		}
		k.table[digest] = consumerOf("consumer", entry.Consumer, entry.Tier, entry.Groups, report)
	})
	k.Keys = model.Digest(o.Keys, all.filed)
	return k
}

// digestOf reads sha256:HEX.
func digestOf(text string) (digest [sha256.Size]byte, ok bool) {
	digits, ok := strings.CutPrefix(text, "sha256:")
	if !ok || len(digits) != 2*len(digest) {
		return digest, false
	}
	_, err := hex.Decode(digest[:], []byte(digits))
	return digest, err == nil
}

// longestKey bounds what is hashed for a client.
const longestKey = 4 << 10

var (
	errUnknownKey = errors.New("the key is not known")
	errLongKey    = errors.New("the key is too long")
)

func (k *apiKey) middleware(next pipeline.Handler) pipeline.Handler {
	return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		principal, err := k.identify(x)
		if err != nil {
			return unauthenticated("ApiKey", err)
		}
		x.Authenticate(principal)
		if !k.Forward {
			k.From.drop(x)
		}
		return next.Serve(x)
	})
}

// identify looks the key up by its digest: how long that takes says something of the
// digests of guesses, and those say nothing of the keys.
func (k *apiKey) identify(x *pipeline.Exchange) (*pipeline.Principal, error) {
	key, there, err := k.From.find(x.Request)
	switch {
	case err != nil:
		return nil, err
	case !there || key == "":
		return nil, errAbsent
	case len(key) > longestKey:
		return nil, errLongKey
	}
	var room [128]byte // on the stack: nearly all keys fit
	principal := k.table[sha256.Sum256(append(room[:0], key...))]
	if principal == nil {
		return nil, errUnknownKey
	}
	return principal, nil
}
