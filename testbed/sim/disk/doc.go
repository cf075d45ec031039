// Package disk is a simulated log of entries, as store.Store keeps one: syncs take
// their time, a crash loses or tears what was not synced, writes fail for a while,
// and what was safe rots now and then.
package disk
