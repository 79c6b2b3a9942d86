package admin

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"weir/internal/data/strict"
	"weir/internal/program/service"
	"weir/proxy/rules/keys"
	"weir/proxy/rules/rule"
	"weir/proxy/rules/tally"
)

// A KeyStore counts keys. Rules are named by id, including rule.GlobalID, and keys have the
// form that rules give them: see [keys.AppendPart].
type KeyStore interface {
	// Top returns the keys of a rule that were recently seen most, and refused most.
	Top(rule string) (busiest, refused tally.Ranking)
	// Forget makes a key as new, for all proxies, and reports whether that changed anything. The
	// error means that the store is unavailable.
	Forget(rule string, key []byte) (changed bool, err error)
	// Add gives a key n permits back, but no more than a new key has, for all proxies,
	// and reports whether the key could use any. The error means that the store is
	// unavailable.
	Add(rule string, key []byte, n int64) (changed bool, err error)
}

// Keys has what the endpoints of keys need from the proxy.
type Keys struct {
	Set   func() *rule.Set // the rules in force
	Store KeyStore
	// HalfLife is that of the sketches, for the answer.
	HalfLife time.Duration
}

const (
	keysDefault = 20 // keys of each kind that are listed
	keysMax     = 1000
	addMax      = 1 << 53 // permits given at once; every limit is smaller
)

// Register adds the endpoints of keys to own:
//
//	GET    /config/keys?rule=per-partner&limit=20
//	DELETE /config/keys?rule=per-partner&key=acme
//	POST   /config/keys {"rule":"per-partner","key":"acme","add":5}
//
// A key is the list of the values of the rule's parts, ["acme","GET"], with null for a
// missing value. A list of one value may be written as that value, and the key of a rule
// with the key global, which has no values, may be left out. Values are written as
// clients send them: those of ip may be addresses, and paths and hosts may have any form.
// A backslash is written as \\, and a byte that is not a visible character as \xff. The
// value of a secret part is shown as sha256: and 12 digits (see [keys.Part.Secret]). A
// key is found by the value, and while it is listed also by the digest. GET with a key
// lists only that key.
func (k *Keys) Register(own *service.Endpoints) {
	own.HandleJSON("GET /config/keys", k.list)
	own.HandleJSON("DELETE /config/keys", k.forget)
	own.HandleJSON("POST /config/keys", k.add)
}

// keysAnswer is the answer of GET /config/keys.
type keysAnswer struct {
	Rule     string      `json:"rule"`
	Parts    []keys.Part `json:"parts"`    // the parts whose values make up keys
	HalfLife float64     `json:"halfLife"` // seconds after which all counts are halved
	Busiest  keyList     `json:"busiest"`
	Refused  keyList     `json:"refused"`
}

// keyList has the keys of one kind.
type keyList struct {
	Total int64     `json:"total"` // requests of all keys
	Keys  []keySeen `json:"keys"`  // the busiest first
	// Missed bounds the count of a key that is not listed because it was never among
	// those counted.
	Missed int64 `json:"missed"`
}

// keySeen is how often a key was seen: from count−error to count times.
type keySeen struct {
	Key   []*string `json:"key"`
	Cut   bool      `json:"cut,omitempty"` // the key is longer than the part that is kept
	Count int64     `json:"count"`
	Error int64     `json:"error"`
}

func (k *Keys) list(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := r.URL.Query().Get("rule")
	parts, err := k.parts(id)
	if err != nil {
		return nil, err
	}
	n, err := service.IntQuery(r, "limit", keysDefault, keysMax)
	if err != nil {
		return nil, err
	}
	busiest, refused := k.Store.Top(id)
	if r.URL.Query().Has("key") {
		values, err := queryValues(r)
		key, err := k.key(id, parts, values, err)
		if err != nil {
			return nil, strict.WithPath("key", err)
		}
		busiest.Entries, refused.Entries = only(busiest.Entries, key), only(refused.Entries, key)
	}
	return keysAnswer{Rule: id, Parts: parts, HalfLife: k.HalfLife.Seconds(), Busiest: listOf(busiest, n),
		Refused: listOf(refused, n)}, nil
}

// only returns the entry of a key, if there is one. Keys longer than the part that is
// kept are distinguished only by length.
func only(entries []tally.Entry, key []byte) []tally.Entry {
	i := slices.IndexFunc(entries, func(e tally.Entry) bool { return e.Bytes == len(key) && bytes.HasPrefix(key, e.Key) })
	if i < 0 {
		return nil
	}
	return entries[i : i+1]
}

// listOf returns the first n keys of a view.
func listOf(v tally.Ranking, n int) keyList {
	l := keyList{Total: v.Total, Missed: v.Missed, Keys: make([]keySeen, 0, min(n, len(v.Entries)))}
	for _, e := range v.Entries[:min(n, len(v.Entries))] {
		l.Keys = append(l.Keys, keySeen{Key: valuesOf(e.Key), Cut: e.Bytes > len(e.Key), Count: e.Count, Error: e.Error})
	}
	return l
}

// parts returns the parts of a rule's key, none if the key is the same for all. The error says
// that there is no such rule.
func (k *Keys) parts(id string) ([]keys.Part, error) {
	set := k.Set()
	for i := range set.Len() {
		switch one := set.Rule(i); {
		case one.ID != id:
		case len(one.Key) == 1 && one.Key[0].String() == rule.GlobalID:
			return []keys.Part{}, nil
		default:
			return one.Key, nil
		}
	}
	switch id {
	case rule.GlobalID:
		return []keys.Part{}, nil
	case "":
		return nil, strict.Fault{Path: "rule",
			Message: "is missing; must be the id of a rule in GET /config/rules, or global"}
	}
	return nil, service.WithStatus(http.StatusNotFound,
		strict.Fault{Path: "rule",
			Message: fmt.Sprintf("must be the id of a rule in GET /config/rules, or global; there is no %q", id)})
}

// edited is the result of an edit of a key.
type edited struct {
	Rule    string    `json:"rule"`
	Key     []*string `json:"key"`
	Changed bool      `json:"changed"` // false: it was as new already
}

func (k *Keys) forget(_ http.ResponseWriter, r *http.Request) (any, error) {
	values, err := queryValues(r)
	return k.edit(r.URL.Query().Get("rule"), values, err, k.Store.Forget)
}

// queryValues parses the values of the key in a query: a JSON list, or otherwise a single value.
func queryValues(r *http.Request) ([]*string, error) {
	switch given := r.URL.Query()["key"]; {
	case len(given) == 0:
		return nil, nil
	case len(given) > 1:
		return nil, errors.New("must be given once; write several values as a list: [\"a\",\"b\"]")
	case strings.HasPrefix(given[0], "["):
		return readValue(strict.Raw(given[0]))
	default:
		return []*string{&given[0]}, nil
	}
}

// A keyGrant is the body of POST /config/keys.
type keyGrant struct {
	Rule string     `json:"rule"`
	Key  strict.Raw `json:"key"`
	Add  int64      `json:"add"`
}

func (k *Keys) add(w http.ResponseWriter, r *http.Request) (any, error) {
	var asked keyGrant
	if err := service.ReadJSON(w, r, &asked); err != nil {
		return nil, err
	}
	if _, err := k.parts(asked.Rule); err != nil { // first, as in the other endpoints
		return nil, err
	}
	if asked.Add < 1 || asked.Add > addMax {
		return nil, strict.Fault{Path: "add", Message: fmt.Sprintf("must be a whole number from 1 to %d, is %d",
			int64(addMax), asked.Add)}
	}
	values, err := readValue(asked.Key)
	return k.edit(asked.Rule, values, err,
		func(rule string, key []byte) (bool, error) { return k.Store.Add(rule, key, asked.Add) })
}

// edit changes a key. err is the error of parsing its values, if any.
func (k *Keys) edit(id string, values []*string, err error,
	change func(rule string, key []byte) (bool, error)) (any, error) {
	parts, noRule := k.parts(id)
	if noRule != nil {
		return nil, noRule
	}
	key, err := k.key(id, parts, values, err)
	if err != nil {
		return nil, strict.WithPath("key", err)
	}
	changed, err := change(id, key)
	if err != nil {
		return nil, service.WithStatus(http.StatusServiceUnavailable, err)
	}
	return edited{Rule: id, Key: valuesOf(key), Changed: changed}, nil
}

// key returns the key of a rule with these values; err is the error of parsing them, if
// any. Secret values may be given as shown in GET /config/keys, for keys that are listed
// now.
func (k *Keys) key(id string, parts []keys.Part, values []*string, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	for i := range min(len(values), len(parts)) {
		if v := values[i]; v != nil && parts[i].Secret() && shownSecret.MatchString(*v) {
			return k.listed(id, values)
		}
	}
	return keyOf(parts, values)
}

// listed returns the listed key with these values.
func (k *Keys) listed(id string, values []*string) ([]byte, error) {
	same := func(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }
	busiest, refused := k.Store.Top(id)
	for _, e := range slices.Concat(busiest.Entries, refused.Entries) {
		if e.Bytes == len(e.Key) && slices.EqualFunc(valuesOf(e.Key), values, same) {
			return e.Key, nil
		}
	}
	return nil, errors.New("must be the value itself, or its digest in a key that GET /config/keys currently lists")
}

// shownSecret is the form in which secret values are shown.
var shownSecret = regexp.MustCompile("^sha256:[0-9a-f]{12}$")
