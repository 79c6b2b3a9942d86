// Package keys determines what is counted separately: the parts of keys, their values in
// requests, and the keys made from them.
//
// Targets differ in how they interpret some requests: a name that a request has twice, names
// such as api.key for api_key, and paths with %2F or path parameters. [Request.Read] collects
// the values that one target or another may find for a part. Each value is in its normal form,
// so that different spellings of one value are equal. Most requests have one interpretation and need
// none of this.
//
// Keys contain values of cookies, of the fields that carry credentials, and of parts written
// secret:… only as their SHA-256. No code after the matching has the value, and endpoints and
// logs show 12 digits of the digest.
package keys
