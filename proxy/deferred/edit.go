package deferred

import "context"

// An Edit is a change by an operator or a client: to one entry, or without an ID to all entries
// of a rule in a state, at most ListMax at a time.
type Edit struct {
	Action Action
	ID     ID // zero: Rule and State select the entries
	Rule   string
	State  State
	// Result is what the entry of a Cancel with an ID keeps instead of its request; nil: nothing.
	Result *Result
}

// An Action is a change to an entry.
type Action uint8

const (
	Cancel Action = iota // waiting entries: become Cancelled, lose their requests, and are kept for DeadKeep
	Retry                // dead entries: wait again, at the end of their lines, as if accepted now
	Drop                 // final entries: are deleted
)

// EditByID implements Queue.Edit for queues that edit entries by their IDs. change edits entries,
// and returns for each why it was not changed, or nil.
func EditByID(ctx context.Context, q Queue, e Edit, change func(ids []ID) (refused []error, err error)) (n int,
	err error) {
	one := e.ID != ID{}
	ids := []ID{e.ID}
	if !one {
		if ids, err = selected(ctx, q, e); err != nil {
			return 0, err
		}
	}
	refused, err := change(ids)
	for _, why := range refused {
		switch {
		case why == nil:
			n++
		case one:
			err = why
		}
	}
	return n, err
}

// selected returns the IDs of the entries that an Edit of many concerns.
func selected(ctx context.Context, q Queue, e Edit) (ids []ID, err error) {
	query := Query{Rule: e.Rule, State: e.State, Limit: ListMax}
	for {
		page, err := q.List(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, entry := range page.Entries {
			ids = append(ids, entry.ID)
		}
		query.Limit, query.After = ListMax-len(ids), page.Next
		if query.Limit == 0 || query.After == "" {
			return ids, nil
		}
	}
}
