// Package descriptor defines the limits of Envoy's rate limit service in the form of files of
// envoyproxy/ratelimit: a tree for each domain, in which a descriptor is looked up.
//
//	domain: shop                                   (plan=free, remote_address=192.0.2.7)
//	descriptors:
//	  - key: plan          ◀── level 1: the entry plan=free, or the first wildcard that
//	    value: free                     matches, or the bare key plan
//	    descriptors:
//	      - key: remote_address  ◀── level 2: the entry found here limits, if it has a limit,
//	        rate_limit: …                 as the descriptor ends here
//
// [Read] makes [Domains] from files, or returns all faults of each. [Domain.Walk] finds
// the limit of a descriptor, and what is counted separately under it. [Decode] parses one
// file, from which package rule makes rules for HTTP requests.
package descriptor
