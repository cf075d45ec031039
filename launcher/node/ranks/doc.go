// Package ranks is the node's part in the attempts of jobs of any origin: [Ranks] lends
// slots, starts ranks by keepers, and reports the ends of ranks to the origin.
//
// Each attempt has a lease here. The lease lapses when the origin of the job is silent for
// too long; then the node ends the ranks, except ranks that wait for an heir.
package ranks
