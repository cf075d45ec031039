// Package campaign has filch campaign: a list of tasks that a user starts from a login node,
// on allocations that a pool asks for.
//
// A campaign is an order of commands that a user could type: filch up, filch pool add, filch
// submit, filch wait, filch pool rm, filch down. The package runs these commands, and keeps
// no state of its own: the name of the campaign is made of the folder and the tasks, and the
// same command line finds the instance, the pool and the job of this name again.
package campaign
