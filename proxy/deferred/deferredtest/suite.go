package deferredtest

import (
	"bytes"
	"fmt"
	"testing"

	"weir/proxy/deferred"
)

// scripts is the number of random scripts.
const scripts = 10

// Run tests what every queue guarantees, with and without encryption, each part at a new place.
func Run(t *testing.T, place func(t *testing.T, key []byte) Storage) {
	for name, key := range map[string][]byte{"plain": nil, "encrypted": bytes.Repeat([]byte{7}, deferred.SealKeyBytes)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, func(t *testing.T) Storage { return place(t, key) })
		})
	}
}

func run(t *testing.T, place func(t *testing.T) Storage) {
	for name, play := range map[string]func(t *testing.T, p Storage){
		"what is put is read":              putRead,
		"order by key":                     orderByKey,
		"no order":                         noOrder,
		"when entries are due":             due,
		"what becomes of entries":          endings,
		"a line for each key":              lines,
		"rules that are left out":          leftOut,
		"leases":                           leases,
		"a crash while delivering":         crashDelivering,
		"the same request again":           same,
		"what was never sent, again":       storedAnew,
		"what was sent before a retry":     sentBeforeRetry,
		"what was never sent, refused":     refusedAnew,
		"the same request fifty times":     sameAtOnce,
		"the bound on entries":             boundEntries,
		"the bound on bytes":               boundBytes,
		"the bound on a line":              boundLine,
		"what one may have":                boundShare,
		"what final entries of one take":   finalShare,
		"the bound on final entries":       finalBound,
		"what follows another":             follows,
		"expiry":                           expiry,
		"cancel, retry, drop":              edits,
		"edits of many":                    editsOfMany,
		"what is cancelled":                cancelled,
		"pause":                            pause,
		"lists":                            lists,
		"a clock that is set back":         clockBack,
		"closed while storing":             closedWhileStoring,
		"a closed queue":                   closed,
		"forgetting":                       forgetting,
		"the figures survive being closed": figures,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, place(t))
		})
	}
	for seed := range uint64(scripts) {
		t.Run(fmt.Sprint("random script ", seed), func(t *testing.T) {
			t.Parallel()
			randomScript(t, place(t), seed)
		})
	}
}
