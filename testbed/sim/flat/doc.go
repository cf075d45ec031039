// Package flat runs one bag on up to a million nodes in virtual time. A node is a few numbers in arrays,
// a task is a count, and messages are small events. The choices are those of the shipped nodes: package
// flat calls the functions of package policy for the tree of a bag, the victims of a thief, the half, the waits, and
// the news. The tests hold the model to the shipped cores in testbed/sim/tasks.
//
// What the model leaves out, and what this changes:
//
//   - Records are answers after two ways over the network. Nobody is the home of a record, as in
//     testbed/sim/tasks.
//   - A queue is a number of tasks, not ranges of task numbers. A shipped victim of many ranges takes
//     the half off several, so an offer has as many tasks, and the thief commits more moves, at once.
//   - The slots of a node whose tasks end at one moment start the next tasks at one moment. A shipped
//     node takes in one end after another, 2 us apart.
//   - The front of a range is committed ahead of need, and no start waits for the front but the first at the
//     leader. Tasks shorter than an answer of the records would wait.
//   - A node forgets a job three answers after the end of its last task, and looks the job up again with a
//     later steal. A shipped node waits for the records of several blocks, with other answers between.
//   - Ends are recorded in no time but the last: the record of the job is complete after two answers and
//     a half. The records of a shipped node cost the node 2 us an answer.
//   - A zone of task numbers changes hands as often as thieves like. In a record, 4,096 owners have room,
//     and further moves are refused: with 40 tasks a node that thieves spread over 1,024 nodes with lifelines, tasks
//     stay behind at a few nodes, and the bag takes up to 1.7 s, not 0.73.
//   - No node dies, no message is lost, and all nodes have as many slots.
package flat
