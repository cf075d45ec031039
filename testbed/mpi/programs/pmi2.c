/* A program of Slurm's PMI-2 library: every rank puts a value, and gets that of
   the next one after a fence; the lowest rank of each node tells the others of
   its node something. */
#include <slurm/pmi2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    int spawned, size, rank, appnum, len, found, bad;
    char job[256], key[64], value[1024], want[256], map[1024], shm[1024] = "";
    const char *lowest = getenv("FILCH_TEST_LOWEST");

    bad = PMI2_Init(&spawned, &size, &rank, &appnum);
    bad |= PMI2_Job_GetId(job, sizeof job);
    bad |= PMI2_Info_GetJobAttr("PMI_process_mapping", map, sizeof map, &found);
    snprintf(key, sizeof key, "card-%d", rank);
    snprintf(value, sizeof value, "a;b=%d", rank);
    bad |= PMI2_KVS_Put(key, value);
    if (lowest && atoi(lowest) == rank)
        bad |= PMI2_Info_PutNodeAttr("shm", lowest);
    bad |= PMI2_KVS_Fence();
    snprintf(key, sizeof key, "card-%d", (rank + 1) % size);
    snprintf(want, sizeof want, "a;b=%d", (rank + 1) % size);
    bad |= PMI2_KVS_Get(job, PMI2_ID_NULL, key, value, sizeof value, &len);
    if (lowest)
        bad |= PMI2_Info_GetNodeAttr("shm", shm, sizeof shm, &found, 1);
    bad |= strcmp(value, want) != 0;
    printf("rank %d of %d map %s shm %s: %s\n", rank, size, map, shm, bad ? "wrong" : "right");
    fflush(stdout);
    return PMI2_Finalize() || bad;
}
