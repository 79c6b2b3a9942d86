package http1

import "errors"

// An Error is a fault in a message received from a peer. Errors are made once and shared: never
// change one.
type Error struct {
	// Status is the status to answer with: for a faulty request a 4xx or 5xx for its client, for a
	// faulty response the 502 for the waiting client.
	Status int
	// Reason describes the fault in a few words, without bytes from the peer.
	Reason string
}

// Error returns the reason.
func (e *Error) Error() string { return "http1: " + e.Reason }

// StatusOf returns the status with which to answer err: the Status of the Error in its chain, or
// 500 if there is none.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 500
}

// HeadTooLarge and TooManyFields return the *Error of a request whose head is too large, for readers of
// other versions.
func HeadTooLarge() error  { return &requestErrors[faultHeadTooLarge] }
func TooManyFields() error { return &requestErrors[faultTooManyFields] }

// A fault is the index of an Error. The reading functions return it because a byte is cheaper
// than an interface, and a Reader stores it.
type fault uint8

const (
	noFault fault = iota
	faultBareCR
	faultBareLF
	faultControl
	faultTruncated
	faultHeadTooLarge
	faultTooManyFields
	faultTooManyEmptyLines
	faultTooManyOptions
	faultTooManyInterims
	faultRequestLine
	faultMethod
	faultTarget
	faultTargetTooLong
	faultVersion
	faultVersionUnknown
	faultStatusLine
	faultStatusCode
	faultFold
	faultNoColon
	faultNameEmpty
	faultNameSpace
	faultName
	faultHostMissing
	faultHostTwice
	faultHost
	faultLength
	faultLengthTwice
	faultLengthTooLarge
	faultLengthAndCoding
	faultCodingVersion
	faultCodingNotFinal
	faultCoding
	faultChunkSize
	faultChunkSizeTooLarge
	faultChunkExtension
	faultChunkLineTooLong
	faultChunkEnd
	faultChunkWaste
	faultTrailerTooLarge
	faultMethodRefused
	faultHostMismatch
	faultExpectation
	faultSwitch
	faultCount
)

// requestErrors are the faults of requests, by fault.
var requestErrors = [faultCount]Error{
	faultBareCR:            {400, "a CR without LF"},
	faultBareLF:            {400, "an LF without CR"},
	faultControl:           {400, "a control character"},
	faultTruncated:         {400, "the connection ended inside a message"},
	faultHeadTooLarge:      {431, "the head is too large"},
	faultTooManyFields:     {431, "too many fields"},
	faultTooManyEmptyLines: {400, "too many empty lines before a request line"},
	faultTooManyOptions:    {400, "too many connection options"},
	faultTooManyInterims:   {502, "too many interim responses"},
	faultRequestLine:       {400, "the request line is not method, target and version with one space between"},
	faultMethod:            {400, "the method is not a token"},
	faultTarget:            {400, "the request target is not valid"},
	faultTargetTooLong:     {414, "the request line is too long"},
	faultVersion:           {400, "the protocol version is not valid"},
	faultVersionUnknown:    {505, "the protocol version is not HTTP/1"},
	faultStatusLine:        {502, "the status line is not version, status code and reason"},
	faultStatusCode:        {502, "the status code is not from 100 to 599"},
	faultFold:              {400, "a field line begins with whitespace"},
	faultNoColon:           {400, "a field line without colon"},
	faultNameEmpty:         {400, "a field without name"},
	faultNameSpace:         {400, "whitespace in a field name or before its colon"},
	faultName:              {400, "a field name is not a token"},
	faultHostMissing:       {400, "no Host field"},
	faultHostTwice:         {400, "more than one Host field"},
	faultHost:              {400, "the host is not valid"},
	faultLength:            {400, "the Content-Length is not a number"},
	faultLengthTwice:       {400, "more than one Content-Length"},
	faultLengthTooLarge:    {413, "the Content-Length is too large"},
	faultLengthAndCoding:   {400, "both Content-Length and Transfer-Encoding"},
	faultCodingVersion:     {400, "Transfer-Encoding in a message older than HTTP/1.1"},
	faultCodingNotFinal:    {400, "chunked is not the one final transfer coding"},
	faultCoding:            {501, "a transfer coding other than chunked"},
	faultChunkSize:         {400, "the chunk size is not valid"},
	faultChunkSizeTooLarge: {413, "the chunk size is too large"},
	faultChunkExtension:    {400, "a chunk extension is not valid"},
	faultChunkLineTooLong:  {400, "a chunk-size line is too long"},
	faultChunkEnd:          {400, "no CRLF at the end of a chunk"},
	faultChunkWaste:        {400, "too much chunk framing for too little data"},
	faultTrailerTooLarge:   {431, "the trailer section is too large"},
	faultMethodRefused:     {405, "the method is not for intermediaries at the edge"},
	faultHostMismatch:      {400, "the target's authority and the Host field differ"},
	faultExpectation:       {417, "an expectation other than 100-continue"},
	faultSwitch:            {502, "switched to a protocol that was not asked for"},
}

// responseErrors are the same faults in responses. The client always gets a 502.
var responseErrors = badGateways()

func badGateways() (errs [faultCount]Error) {
	for f := range errs {
		errs[f] = Error{502, requestErrors[f].Reason}
	}
	return errs
}
