package client

import "time"

// SetPatience sets how long the client waits for the first answer to a submission.
func (c *Client) SetPatience(voice, wait time.Duration) { c.patience = patience{voice, wait} }
