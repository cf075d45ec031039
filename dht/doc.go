// Package dht is the vocabulary of the metadata store: keys, operations and their
// results, kinds of records with their merge rules, and the shards, which are
// ranges of the keys' hashes.
//
// Package dht/store carries operations out, dht/roster says which nodes hold which
// shard, and dht/members says which nodes live.
package dht
