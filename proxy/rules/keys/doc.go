// Package keys determines what is counted separately: the parts of keys, their values in
// requests, and the keys made from them.
//
// Targets disagree about a name that a request has twice, about names such as api.key for api_key,
// and about paths with %2F or path parameters. [Request.Read] collects what they may read as the
// value of a part, each in its normal form (spelling.go). A request usually has one reading, and
// then takes none of this.
//
// Values of cookies, of the fields that carry credentials, and of parts written secret:… are in
// keys as their SHA-256 only: no code after the matching has the value, and endpoints and logs show
// 12 digits of it.
package keys
