// Package tokens is a node's use of tokens: of capped jobs, and of resources that all nodes
// share. The node asks the record for tokens, keeps the tokens that tasks here may need, and gives
// the others back. The package knows no single task and starts none: the core asks whether a
// task may take its tokens.
package tokens
