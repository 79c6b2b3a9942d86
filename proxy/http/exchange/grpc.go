package exchange

import (
	"weir/internal/net/http1"
	"weir/proxy/rules/decide"
)

// A call of gRPC is a request like others. Only what the proxy itself answers has another form.

// noticeCall records whether the request is a call of gRPC.
func (x *Exchange) noticeCall(h *http1.Head) {
	if h.Method != http1.POST || x.outcome.Own {
		return
	}
	kind, _ := h.Value(http1.FieldContentType)
	x.grpc = decide.IsGRPC(kind)
}
