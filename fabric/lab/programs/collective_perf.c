/* all_reduce and alltoall of MPI ranks on the CPU, in the words and the layout of nccl-tests: real bytes over the
   network, every result checked. The name it is called by selects one of the two. One rank a process, floats. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks, is_all_reduce;

/* Return what a rank contributes: whole numbers, so that a sum is exact in any order. */
static float given(int of, size_t at) { return (float)((of + 1) * (int)(at % 251)); }

/* Return where block b of n floats begins; the sizes of blocks differ by one at most. */
static size_t block(size_t n, int b) { return n * (size_t)b / (size_t)ranks; }

/* Send and receive at once, in pieces that need no handshake: Open MPI sends longer ones one way at a time. */
static void swap(float *out, size_t many, int to, float *in, size_t more, int from) {
    enum { PIECE = 8192 };
    int count = (int)((many + PIECE - 1) / PIECE + (more + PIECE - 1) / PIECE), next = 0;
    MPI_Request *open = malloc((size_t)(count + 1) * sizeof *open);
    for (size_t at = 0; at < more; at += PIECE)
        MPI_Irecv(in + at, (int)(more - at < PIECE ? more - at : PIECE), MPI_FLOAT, from, 0, MPI_COMM_WORLD,
                  &open[next++]);
    for (size_t at = 0; at < many; at += PIECE)
        MPI_Isend(out + at, (int)(many - at < PIECE ? many - at : PIECE), MPI_FLOAT, to, 0, MPI_COMM_WORLD,
                  &open[next++]);
    MPI_Waitall(next, open, MPI_STATUSES_IGNORE);
    free(open);
}

/* Run a ring, as NCCL_ALGO=RING: every block goes round twice, first to be summed, then to spread the sum. */
static void all_reduce(float *data, float *scratch, size_t n) {
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    for (int step = 0; step < 2 * (ranks - 1); step++) {
        int sum = step < ranks - 1, out = (rank - step + 2 * ranks) % ranks, in = (out + ranks - 1) % ranks;
        size_t from = block(n, out), many = block(n, out + 1) - from;
        size_t into = block(n, in), more = block(n, in + 1) - into;
        float *place = sum ? scratch : data + into;
        swap(data + from, many, right, place, more, left);
        for (size_t i = 0; sum && i < more; i++) data[into + i] += scratch[i];
    }
}

/* Send block b to rank b: in step s each rank sends to the rank s places further. */
static void alltoall(float *data, float *scratch, size_t n) {
    size_t many = n / (size_t)ranks;
    memcpy(scratch + rank * many, data + rank * many, many * sizeof(float));
    for (int step = 1; step < ranks; step++) {
        int to = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
        swap(data + to * many, many, to, scratch + from * many, many, from);
    }
    memcpy(data, scratch, many * (size_t)ranks * sizeof(float));
}

static void fill(float *data, size_t n) {
    for (size_t i = 0; i < n; i++) data[i] = given(rank, i);
}

static long wrong(const float *data, size_t n) {
    long found = 0;
    size_t many = n / (size_t)ranks;
    for (size_t i = 0; i < n; i++) {
        float wanted = 0;
        if (is_all_reduce) {
            for (int of = 0; of < ranks; of++) wanted += given(of, i);
        } else {
            if (i >= many * (size_t)ranks) break;
            wanted = given((int)(i / many), rank * many + i % many);
        }
        found += data[i] != wanted;
    }
    return found;
}

/* Measure one operation: the microseconds of the slowest rank, and how many values were wrong. */
static double timed(float *data, float *scratch, size_t n, int iterations, int warm_up, long *bad) {
    double began = 0, took, slowest;
    for (int i = -warm_up; i < iterations; i++) {
        if (i == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            began = MPI_Wtime();
        }
        is_all_reduce ? all_reduce(data, scratch, n) : alltoall(data, scratch, n);
    }
    took = (MPI_Wtime() - began) / iterations;
    MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    fill(data, n);
    is_all_reduce ? all_reduce(data, scratch, n) : alltoall(data, scratch, n);
    long mine = wrong(data, n);
    MPI_Allreduce(&mine, bad, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return slowest * 1e6;
}

static void list_ranks(void) {
    struct { char host[64]; int pid; } own = {{0}, (int)getpid()}, *all = calloc((size_t)ranks, sizeof own);
    gethostname(own.host, sizeof own.host - 1);
    MPI_Gather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, 0, MPI_COMM_WORLD);
    for (int r = 0; rank == 0 && r < ranks; r++)
        printf("#  Rank %2d Group  0 Pid %6d on %10s device  0 [0000:00:00] CPU, no GPU\n", r, all[r].pid, all[r].host);
    free(all);
}

int main(int argc, char **argv) {
    size_t least = 1 << 20, most = 1 << 20;
    int factor = 2, iterations = 20, warm_up = 5, option;
    const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    is_all_reduce = strcmp(name, "alltoall_perf") != 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    while ((option = getopt(argc, argv, "b:e:f:g:n:w:")) != -1) {
        long value = option == '?' ? 0 : atol(optarg);
        if (value < (option == 'w' ? 0 : 1) || (option == 'g' && value != 1) || (option == 'f' && value < 2)) {
            if (rank == 0) fprintf(stderr, "Invalid option: -%c\n", option);
            MPI_Finalize();
            return 1;
        }
        if (option == 'b') least = (size_t)value;
        if (option == 'e') most = (size_t)value;
        if (option == 'f') factor = (int)value;
        if (option == 'n') iterations = (int)value;
        if (option == 'w') warm_up = (int)value;
    }
    if (rank == 0) {
        printf("# nccl-tests version 2.17.6 nccl-headers=0 nccl-library=0\n# Collective test starting: %s\n", name);
        printf("# nThread 1 nGpus 1 minBytes %zu maxBytes %zu step: %d(factor) warmup iters: %d iters: %d agg iters: 1 "
               "validation: 1 graph: 0\n#\n# Using devices\n", least, most, factor, warm_up, iterations);
    }
    list_ranks();
    if (rank == 0)
        printf("#\n#%60sout-of-place                       in-place          \n"
               "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw"
               "   busbw #wrong\n"
               "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)"
               "  (GB/s)       \n", "");
    double sum = 0, bus = is_all_reduce ? 2.0 * (ranks - 1) / ranks : 1.0 * (ranks - 1) / ranks;
    long rows = 0, all_bad = 0;
    for (size_t size = least; size <= most; size *= (size_t)factor) {
        size_t n = size / sizeof(float);
        float *data = calloc(n + (size_t)ranks, sizeof(float)), *scratch = calloc(n + (size_t)ranks, sizeof(float));
        double us[2], rate[2];
        long bad[2];
        for (int place = 0; place < 2; place++) {
            us[place] = timed(data, scratch, n, iterations, warm_up, &bad[place]);
            rate[place] = (double)size / us[place] / 1e3;
            sum += rate[place] * bus;
            rows++;
            all_bad += bad[place];
        }
        if (rank == 0) {
            printf("%12zu  %12zu     float    %4s      -1", size, is_all_reduce ? n : n / (size_t)ranks,
                   is_all_reduce ? "sum" : "none");
            for (int place = 0; place < 2; place++)
                printf("  %7.1f  %6.4f  %6.4f  %5ld", us[place], rate[place], rate[place] * bus, bad[place]);
            printf("\n");
            fflush(stdout);
        }
        free(data);
        free(scratch);
    }
    if (rank == 0)
        printf("# Out of bounds values : %ld %s\n# Avg bus bandwidth    : %g \n#\n# Collective test concluded: %s\n", all_bad,
               all_bad ? "FAILED" : "OK", rows ? sum / rows : 0.0, name);
    MPI_Finalize();
    return 0;
}
