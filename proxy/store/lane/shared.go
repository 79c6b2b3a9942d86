package lane

import (
	"context"
	"fmt"
	"time"

	"weir/proxy/store"
)

// Forget implements [store.Store]. Other proxies forget their refusals within a quarter of a second.
// After an error the key may have been forgotten, while other proxies remember refusals;
// then Forget can be called again.
func (s *Store) Forget(rule string, key []byte) (bool, error) {
	defer s.ForgetRefusals()
	return exchange(s, "forget a key of rule "+rule,
		func(ctx context.Context) (bool, error) { return s.backend.Forget(ctx, rule, key) })
}

// Add implements [store.Store]. The error is as for Forget, or says that the key has something
// else than a state. After an error the key may have been given the permits, and would be given them
// twice if Add is called again. It panics if n is negative.
func (s *Store) Add(rule string, key []byte, n int64) (bool, error) {
	if n < 0 {
		panic("bug: lane: a negative number of permits to add")
	}
	if n == 0 {
		return false, nil
	}
	defer s.ForgetRefusals()
	return exchange(s, "give to a key of rule "+rule,
		func(ctx context.Context) (bool, error) { return s.backend.Add(ctx, rule, key, n) })
}

// Lease implements [store.Store]. The holder must count ttl from before the call.
func (s *Store) Lease(name, owner string, ttl time.Duration) (held bool, err error) {
	if ttl < time.Millisecond {
		panic("bug: lane: a lease of less than a millisecond")
	}
	return s.lease(name, owner, ttl)
}

// Release releases the lease, if owner holds it.
func (s *Store) Release(name, owner string) error {
	_, err := s.lease(name, owner, 0)
	return err
}

func (s *Store) lease(name, owner string, ttl time.Duration) (bool, error) {
	return exchange(s, "hold lease "+name,
		func(ctx context.Context) (bool, error) { return s.backend.Lease(ctx, name, owner, ttl) })
}

// Read implements [store.DocumentStore]. A large document over a slow link takes as long as the
// backend permits.
func (s *Store) Read(name string) (store.Document, error) {
	if s.breaker.isOpen.Load() {
		return store.Document{}, fmt.Errorf("read document %s: %w", name, s.errUnavailable)
	}
	doc, err := s.backend.Read(s.stopping, name)
	if err != nil {
		s.counts.documentErrors.Inc()
		return store.Document{}, fmt.Errorf("read document %s: %w", name, err)
	}
	return doc, nil
}

// CompareAndSet implements [store.DocumentStore]. After an error other than a store.SizeError the
// document may have been written.
func (s *Store) CompareAndSet(name string, version int64, body []byte) (doc store.Document, written bool, err error) {
	err = store.CheckSize(body)
	if err == nil && s.breaker.isOpen.Load() {
		err = s.errUnavailable
	}
	if err == nil {
		if doc.Version, err = s.backend.CompareAndSet(s.stopping, name, version, body); err != nil {
			s.counts.documentErrors.Inc()
		}
	}
	switch {
	case err != nil:
		return store.Document{}, false, fmt.Errorf("write document %s: %w", name, err)
	case doc.Version == 0:
		doc, err = s.Read(name)
		return doc, false, err
	case len(body) > 0:
		doc.Body = body
	}
	return doc, true, nil
}
