package exchange

// A FailureKind is why a target gave no usable answer.
type FailureKind uint8

const (
	FaultNone        FailureKind = iota
	FaultRefused                 // the connection was refused
	FaultConnect                 // connecting failed for another reason
	FaultConnectTime             // connecting took too long
	FaultBusy                    // no connection became free in time, or no place to wait for one
	FaultResources               // the proxy has no descriptor or port left to connect with
	FaultShed                    // no place at the target became free in time
	FaultStreams                 // all connections that may carry tunnels and streams do; nothing was sent
	FaultUnstreamed              // likewise, and the answer is too large or takes too long to be collected
	FaultClosed                  // closed or reset before the answer was complete
	FaultTimeout                 // no answer in time, or no further piece of it
	FaultGarbled                 // the answer is not valid HTTP
	FaultNoTarget                // no target can be reached
	FaultUnprocessed             // it has refused the stream of the request, again and again, without processing it
	FaultHead                    // it accepts no head of that size; nothing was sent
	FaultUpgrade                 // it is used by HTTP/2, which has no upgrades; nothing was sent
	faultCount
)

// FailureKinds is the number of failure kinds.
const FailureKinds = int(faultCount)

// faults has the names of faults in metrics, and the answers to requests that meet them.
var faults = [FailureKinds]struct {
	name   string
	status int
	reason string
}{
	FaultNone:        {name: "none"},
	FaultRefused:     {"connect_refused", 502, "the target refuses connections"},
	FaultConnect:     {"connect_failed", 502, "the target cannot be reached"},
	FaultConnectTime: {"connect_timeout", 504, "the target did not accept a connection in time"},
	FaultBusy:        {"busy", 503, "all connections to the target that this client may use are taken"},
	FaultResources:   {"no_resources", 503, "the proxy has no descriptors or ports left to connect to the target"},
	FaultShed:        {"gate", 503, "the target is overloaded"},
	FaultStreams:     {"streams", 503, "all connections to the target that may carry tunnels and streams are taken"},
	FaultUnstreamed: {"unstreamed", 502,
		"the target's answer can only be streamed, and all connections that may carry streams are taken"},
	FaultClosed:      {"closed", 502, "the target closed the connection before its answer was complete"},
	FaultTimeout:     {"timeout", 504, "the target did not answer in time"},
	FaultGarbled:     {"bad_response", 502, "the target's answer is not valid HTTP"},
	FaultNoTarget:    {"no_target", 503, "no target can be reached"},
	FaultUnprocessed: {"unprocessed", 503, "the target has refused the request without processing it"},
	FaultHead:        {"head_too_large", 431, "the target accepts no request with so large a head"},
	FaultUpgrade:     {"upgrade", 501, "the target is used by HTTP/2, which has no upgrades"},
}

// String returns the fault's name in metrics.
func (f FailureKind) String() string { return faults[f].name }

// LackOfRoom reports whether the proxy had no place for the request, so that it may find one later.
func (f FailureKind) LackOfRoom() bool { return f >= FaultBusy && f <= FaultStreams }
