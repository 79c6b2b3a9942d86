// Package descriptor has the limits of Envoy's rate limit service, as files of
// envoyproxy/ratelimit say them: a tree for each domain, down which a descriptor walks.
//
//	domain: shop                                   (plan=free, remote_address=192.0.2.7)
//	descriptors:
//	  - key: plan          ◀── level 1: the entry plan=free, or the first wildcard that
//	    value: free                     matches, or the bare key plan
//	    descriptors:
//	      - key: remote_address  ◀── level 2: the entry found here limits, if it has a limit,
//	        rate_limit: …                 as the descriptor ends here
//
// [Read] makes [Domains] of files, or says all that is wrong with each. [Domain.Walk] finds
// the limit of a descriptor, and what is counted apart under it. [Decode] reads one file, of
// which package rule makes rules about HTTP requests, which no list of entries describes.
package descriptor
