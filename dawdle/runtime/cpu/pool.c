// Runs programs: lists of kernels, on a small pool of threads.
//
// A program is a list of phases, a phase a list of kernels that don't depend on each other. A parallel phase is cut into
// one share for each thread. Unclaimed shares are the bits of one word; a thread claims its own share, and whoever
// finishes the last share of a phase starts the next one. There is no barrier that a preempted or sleeping thread could
// hold up: a thread that has waited for as long as its own share took does the share that nobody has begun.
//
// With -DDAWDLE_SERIAL everything runs on the calling thread and nothing but the C library is needed.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

typedef void (*dw_function)(int64_t thread, int64_t threads, void *const *buffers, char *scratch);

typedef struct {
  dw_function function;
  int64_t param;     // its first entry in the program's params
  int64_t parallel;  // 0: only thread 0 does anything
} dw_kernel;

typedef struct {
  int64_t begin, end;  // kernels
  int64_t parallel;    // worth sharing
} dw_phase;

typedef struct {
  int64_t slot, offset;  // the parameter lies at slots[slot] + offset
} dw_param;

typedef struct {
  const dw_kernel *kernels;
  const dw_phase *phases;
  const dw_param *params;
  int64_t n_phases, n_params;
  int64_t scratch;  // bytes of private memory for each thread
} dw_program;

#define EXPORT __attribute__((visibility("default")))
#define MAX_THREADS 64
#define ALIGN 64

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// memory that each thread keeps between calls
typedef struct {
  char *block;
  int64_t size;
} area;

static void *reserve(area *a, int64_t size) {
  if (size > a->size) {
    free(a->block);
    size = (size + 4095) & ~(int64_t)4095;
    a->block = aligned_alloc(ALIGN, (size_t)size);
    a->size = a->block ? size : 0;
  }
  return a->block;
}

typedef struct {
  const dw_program *program;
  void **table;  // the parameters' addresses
  int64_t threads;
  int64_t *times;  // end of each phase, or NULL
} job;

static void run_share(const job *j, const dw_phase *phase, int64_t share, int64_t threads, char *scratch) {
  for (int64_t k = phase->begin; k < phase->end; k++) {
    const dw_kernel *kernel = &j->program->kernels[k];
    void *const *buffers = j->table + kernel->param;
    if (kernel->parallel)
      kernel->function(share, threads, buffers, scratch);
    else if ((k - phase->begin) % threads == share)
      kernel->function(0, 1, buffers, scratch);
  }
}

static void run_serial(const job *j, char *scratch) {
  for (int64_t p = 0; p < j->program->n_phases; p++) {
    run_share(j, &j->program->phases[p], 0, 1, scratch);
    if (j->times) j->times[p + 1] = now();
  }
}

static void fill(void **table, const dw_program *program, char *const *slots) {
  for (int64_t i = 0; i < program->n_params; i++) table[i] = slots[program->params[i].slot] + program->params[i].offset;
}

#ifdef DAWDLE_SERIAL

EXPORT int dw_run(const dw_program *program, char *const *slots, int64_t threads, int64_t *times) {
  static area scratch_area, table_area;
  (void)threads;
  char *scratch = reserve(&scratch_area, program->scratch + 1);
  job j = {program, reserve(&table_area, (program->n_params + 1) * (int64_t)sizeof(void *)), 1, times};
  if (!scratch || !j.table) return -1;
  fill(j.table, program, slots);
  if (times) times[0] = now();
  run_serial(&j, scratch);
  return 0;
}

EXPORT int64_t dw_workers(void) { return 0; }

#else

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#ifndef SPIN_NS
#define SPIN_NS 100000  // how long a thread polls before it sleeps; waking it takes half of that
#endif
#define PATIENCE_NS 3000

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("yield")
#else
#define PAUSE() ((void)0)
#endif

static struct {
  _Alignas(128) _Atomic uint64_t shares;  // bit i: share i of the current phase is unclaimed
  _Alignas(128) _Atomic int64_t remaining;  // shares of the current phase that aren't done
  _Alignas(128) _Atomic int finished;
  _Atomic int failed;
  _Atomic int sleepers, caller_sleeps;
  _Atomic int64_t threads;
  job current;
  int64_t phase;
  int64_t workers;
  pthread_t handles[MAX_THREADS];
  int avoided;  // the CPU that workers keep off, or -1
  pthread_mutex_t call, mutex;
  pthread_cond_t work, done;
  pthread_key_t key;
} pool = {.call = PTHREAD_MUTEX_INITIALIZER,
          .mutex = PTHREAD_MUTEX_INITIALIZER,
          .work = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER};

typedef struct {
  area scratch, table;
} areas;

static _Thread_local areas *own_areas;

static void free_areas(void *p) {
  areas *a = p;
  free(a->scratch.block);
  free(a->table.block);
  free(a);
}

static areas *thread_areas(void) {
  if (!own_areas) {
    own_areas = calloc(1, sizeof(areas));
    pthread_setspecific(pool.key, own_areas);
  }
  return own_areas;
}

static char *thread_scratch(int64_t size) {
  areas *a = thread_areas();
  return a ? reserve(&a->scratch, size + 1) : NULL;
}

// Only one thread at a time is here: the caller at the start, then whoever finished the last share of a phase.
static void advance(void) {
  const job *j = &pool.current;
  for (;;) {
    int64_t p = pool.phase++;
    if (j->times) j->times[p] = now();
    if (p == j->program->n_phases || atomic_load_explicit(&pool.failed, memory_order_relaxed)) {
      atomic_store(&pool.finished, 1);
      if (atomic_load(&pool.caller_sleeps)) {
        pthread_mutex_lock(&pool.mutex);
        pthread_cond_signal(&pool.done);
        pthread_mutex_unlock(&pool.mutex);
      }
      return;
    }
    const dw_phase *phase = &j->program->phases[p];
    if (phase->parallel) {
      int64_t n = j->threads;
      atomic_store_explicit(&pool.remaining, n, memory_order_relaxed);
      atomic_store(&pool.shares, n == 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1);
      if (atomic_load(&pool.sleepers) || atomic_load(&pool.caller_sleeps)) {
        pthread_mutex_lock(&pool.mutex);
        pthread_cond_broadcast(&pool.work);
        pthread_cond_signal(&pool.done);
        pthread_mutex_unlock(&pool.mutex);
      }
      return;
    }
    char *scratch = thread_scratch(j->program->scratch);
    if (scratch)
      run_share(j, phase, 0, 1, scratch);
    else
      atomic_store(&pool.failed, 1);
  }
}

// Claim `share` and do it; false if another thread was faster.
static int try_share(int64_t share) {
  uint64_t bit = (uint64_t)1 << share;
  if (!(atomic_fetch_and(&pool.shares, ~bit) & bit)) return 0;
  // while this share isn't done, the job and the phase stay what they are
  const job *j = &pool.current;
  char *scratch = thread_scratch(j->program->scratch);
  if (scratch)
    run_share(j, &j->program->phases[pool.phase - 1], share, j->threads, scratch);
  else
    atomic_store(&pool.failed, 1);
  if (atomic_fetch_sub(&pool.remaining, 1) == 1) advance();
  return 1;
}

typedef struct {
  int64_t since;  // when it last had something to do
  int64_t cost;   // how long its own last share took
  unsigned polls;
} waiter;

// Look for a share once. Returns 1 if one was done, 0 if there was none, -1 after polling for SPIN_NS.
static int poll_once(waiter *w, int64_t own) {
  uint64_t open = atomic_load_explicit(&pool.shares, memory_order_acquire);
  if (open >> own & 1) {
    int64_t start = now();
    if (try_share(own)) {
      w->since = now();
      w->cost = w->since - start;
      w->polls = 0;
      return 1;
    }
  }
  if (++w->polls & 31) {
    PAUSE();
    return 0;
  }
  int64_t waited = now() - w->since;
  if (open && waited > w->cost + PATIENCE_NS) {
    int64_t share = __builtin_ctzll(open);
    if (try_share(share)) {
      w->since = now();
      return 1;
    }
  }
  return !open && waited > SPIN_NS ? -1 : 0;
}

static void *worker(void *argument) {
  int64_t own = (int64_t)(intptr_t)argument;
  waiter w = {now(), 0, 0};
  for (;;) {
    int idle = own >= atomic_load(&pool.threads);
    if (!idle && poll_once(&w, own) >= 0) continue;
    pthread_mutex_lock(&pool.mutex);
    atomic_fetch_add(&pool.sleepers, 1);
    if (own >= atomic_load(&pool.threads) || !atomic_load(&pool.shares)) pthread_cond_wait(&pool.work, &pool.mutex);
    atomic_fetch_sub(&pool.sleepers, 1);
    pthread_mutex_unlock(&pool.mutex);
    w.since = now();
    w.cost = SPIN_NS;  // it has just woken up, others may be about to
  }
  return NULL;
}

static void wait_finished(void) {
  waiter w = {now(), 0, 0};
  while (!atomic_load_explicit(&pool.finished, memory_order_acquire)) {
    if (poll_once(&w, 0) >= 0) continue;
    pthread_mutex_lock(&pool.mutex);
    atomic_store(&pool.caller_sleeps, 1);
    while (!atomic_load(&pool.finished) && !atomic_load(&pool.shares)) pthread_cond_wait(&pool.done, &pool.mutex);
    atomic_store(&pool.caller_sleeps, 0);
    pthread_mutex_unlock(&pool.mutex);
    w.since = now();
  }
}

// Start workers until there are `threads` threads with the caller; returns how many there are.
static int64_t start_workers(int64_t threads) {
  if (threads > MAX_THREADS) threads = MAX_THREADS;
  sigset_t all, old;
  sigfillset(&all);  // signals are for the threads of the program, not for ours
  pthread_attr_t attributes;
  if (pool.workers + 1 >= threads || pthread_attr_init(&attributes)) return threads < pool.workers + 1 ? threads : pool.workers + 1;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  while (pool.workers + 1 < threads) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, worker, (void *)(intptr_t)(pool.workers + 1))) break;
    pool.handles[++pool.workers] = thread;
    pool.avoided = -1;
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  pthread_attr_destroy(&attributes);
  return pool.workers + 1;
}

static void after_fork(void) {  // the child has none of the workers, and may have inherited held locks
  pthread_mutex_init(&pool.call, NULL);
  pthread_mutex_init(&pool.mutex, NULL);
  pthread_cond_init(&pool.work, NULL);
  pthread_cond_init(&pool.done, NULL);
  pool.workers = 0;
  atomic_store(&pool.shares, 0);
  atomic_store(&pool.sleepers, 0);
  atomic_store(&pool.caller_sleeps, 0);
}

__attribute__((constructor)) static void set_up(void) {
  pthread_key_create(&pool.key, free_areas);
  pthread_atfork(NULL, NULL, after_fork);
}

EXPORT int64_t dw_workers(void) { return pool.workers; }

// Keep the workers off the caller's CPU. The kernel likes to wake a thread where its waker runs, and on two cores it
// takes milliseconds to notice that this halves the speed.
static void keep_off_callers_cpu(void) {
#ifdef __linux__
  int cpu = sched_getcpu();
  if (cpu == pool.avoided || cpu < 0 || cpu >= CPU_SETSIZE) return;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed)) return;
  CPU_CLR(cpu, &allowed);
  if (CPU_COUNT(&allowed) == 0) return;
  for (int64_t i = 1; i <= pool.workers; i++) pthread_setaffinity_np(pool.handles[i], sizeof allowed, &allowed);
  pool.avoided = cpu;
#endif
}

static int is_parallel(const dw_program *program) {
  for (int64_t p = 0; p < program->n_phases; p++)
    if (program->phases[p].parallel) return 1;
  return 0;
}

// Run a program on up to `threads` threads. slots are the addresses of its buffers. times, if given, has n_phases + 1
// entries that receive the start and the end of each phase in ns. Returns -1 if there is no memory for scratch space.
// Any number of threads may call: while one has the pool, the others run on their own.
EXPORT int dw_run(const dw_program *program, char *const *slots, int64_t threads, int64_t *times) {
  areas *a = thread_areas();
  if (!a) return -1;
  char *scratch = reserve(&a->scratch, program->scratch + 1);
  job j = {program, reserve(&a->table, (program->n_params + 1) * (int64_t)sizeof(void *)), 1, times};
  if (!scratch || !j.table) return -1;
  fill(j.table, program, slots);
  if (threads < 2 || !is_parallel(program) || pthread_mutex_trylock(&pool.call)) {
    if (times) times[0] = now();
    run_serial(&j, scratch);
    return 0;
  }
  j.threads = start_workers(threads);
  keep_off_callers_cpu();
  pool.current = j;
  pool.phase = 0;
  atomic_store(&pool.failed, 0);
  atomic_store(&pool.finished, 0);
  atomic_store(&pool.threads, j.threads);
  advance();
  wait_finished();
  int failed = atomic_load(&pool.failed);
  pthread_mutex_unlock(&pool.call);
  return failed ? -1 : 0;
}

#endif
