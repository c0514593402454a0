/*
 * tree: the descendants of the calling process, found by parent pids in /proc (the kernels we meet have no
 * /proc/<pid>/task/<tid>/children). Holds still only as long as the tree does: callers repeat until nothing is left.
 */
#ifndef SALLYPORT_TREE_H
#define SALLYPORT_TREE_H

/* @param proc a descriptor of /proc. @return the number of descendants found, -1 when /proc cannot be read */
int tree_scan(int proc);
/* Signals what the last tree_scan found. */
void tree_signal(int signal_number);

#endif
