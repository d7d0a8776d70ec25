// Runs kernels that emulate.h has given their meaning: a block at a time, each of its threads a fiber.
//
// A fiber runs until it waits for others or ends. The order in which those that can run do is drawn from the seed
// anew each time all have run, so whatever a kernel assumes of another thread's progress without a barrier fails for
// some seed. Shared memory is filled with NaNs' bits before each block.
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <deque>
#include <random>
#include <vector>

struct dim { unsigned x, y, z; };
extern "C" {
dim threadIdx, blockIdx, blockDim, gridDim;
}

namespace {
constexpr size_t STACK = 256 << 10;
enum State { READY, AT_BLOCK, AT_WARP, DONE };

struct Copy { void *to; const void *from; int bytes; };

struct Fiber {
  jmp_buf at;
  ucontext_t start;
  State state;
  bool begun = false;  // its stack is in use
  void *stack = nullptr;
  int line;  // of the barrier that it waits at
  unsigned mask;  // of the warp's lanes that it waits for
  long rounds;  // warp operations it has been through
  std::deque<std::vector<Copy>> pending;  // asynchronous copies, by the groups they were committed in
};

struct Warp { unsigned long long value[2][32]; };

std::vector<Fiber *> fibers;
std::vector<Warp> warps;
std::mt19937_64 order;
jmp_buf scheduler;
int current;
unsigned threads;
void (*kernel)(void **);
void **arguments;
bool failed;
char message[512];

void fail(const char *format, const char *what, int line) {
  if (!failed) snprintf(message, sizeof message, format, what, line, blockIdx.x, current);
  failed = true;
}

void wait(State state, int line) {
  Fiber *f = fibers[current];
  f->state = state;
  f->line = line;
  if (!_setjmp(f->at)) _longjmp(scheduler, 1);
}

void body() {
  for (;;) {  // a stack serves many blocks
    kernel(arguments);
    if (!fibers[current]->pending.empty()) {
      bool lost = false;
      for (auto &group : fibers[current]->pending) lost |= !group.empty();
      if (lost) fail("%s (line %d) of block %u, thread %d", "ends with asynchronous copies that nobody waited for", 0);
      fibers[current]->pending.clear();
    }
    wait(DONE, 0);
  }
}

void resume(int i) {
  Fiber *f = fibers[i];
  current = i;
  f->state = READY;
  threadIdx.x = i % blockDim.x, threadIdx.y = i / blockDim.x % blockDim.y, threadIdx.z = i / (blockDim.x * blockDim.y);
  if (_setjmp(scheduler)) return;
  if (f->begun) _longjmp(f->at, 1);
  f->begun = true;
  if (!f->stack) f->stack = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  getcontext(&f->start);
  f->start.uc_stack.ss_sp = f->stack;
  f->start.uc_stack.ss_size = STACK;
  makecontext(&f->start, body, 0);
  setcontext(&f->start);
}

unsigned alive(int warp) {
  unsigned lanes = 0;
  for (int i = 0; i < 32 && warp * 32 + i < (int)threads; i++)
    if (fibers[warp * 32 + i]->state != DONE) lanes |= 1u << i;
  return lanes;
}

// lets the lanes go on whose whole mask, of those that haven't ended, waits in the same round
bool release_warps() {
  bool any = false;
  for (unsigned w = 0; w < warps.size(); w++) {
    unsigned live = alive(w), go = 0;
    for (int i = 0; i < 32; i++) {
      if (!(live >> i & 1)) continue;
      Fiber *f = fibers[w * 32 + i];
      if (f->state != AT_WARP) continue;
      bool all = true;
      for (int j = 0; j < 32; j++) {
        if (!(f->mask & live) || !((f->mask & live) >> j & 1)) continue;
        Fiber *g = fibers[w * 32 + j];
        all &= g->state == AT_WARP && g->mask == f->mask && g->rounds == f->rounds && g->line == f->line;
      }
      if (all) go |= 1u << i;
    }
    for (int i = 0; i < 32; i++)
      if (go >> i & 1) fibers[w * 32 + i]->state = READY, any = true;
  }
  return any;
}

bool release_block() {
  int line = -1;
  for (unsigned i = 0; i < threads; i++) {
    Fiber *f = fibers[i];
    if (f->state == DONE) continue;
    if (f->state != AT_BLOCK) {
      fail("%s at line %d in block %u, thread %d", "some threads wait for their warp, others for their block,", f->line);
      return false;
    }
    if (line >= 0 && f->line != line) {
      fail("%s at line %d in block %u, thread %d", "threads of one block wait at different barriers", f->line);
      return false;
    }
    line = f->line;
  }
  for (unsigned i = 0; i < threads; i++)
    if (fibers[i]->state == AT_BLOCK) fibers[i]->state = READY;
  return line >= 0;
}

void run_block(uint64_t seed) {
  std::vector<int> turn(threads);
  for (unsigned i = 0; i < threads; i++) turn[i] = i, fibers[i]->state = READY, fibers[i]->rounds = 0;
  for (;;) {
    if (seed)
      for (unsigned i = threads; i > 1; i--) std::swap(turn[i - 1], turn[order() % i]);
    for (int i : turn)
      if (fibers[i]->state == READY && !failed) resume(i);
    if (failed) return;
    bool left = false;
    for (unsigned i = 0; i < threads; i++) left |= fibers[i]->state != DONE;
    if (!left) return;
    if (!release_warps() && !release_block()) {
      fail("%s at line %d in block %u, thread %d", "threads wait for lanes that never come", fibers[turn[0]]->line);
      return;
    }
  }
}
}  // namespace

extern "C" {
// gives the thread up: it can't go on
void dw_fail(const char *what, int line) {
  fail("%s at line %d in block %u, thread %d", what, line);
  _longjmp(scheduler, 1);
}

void dw_block_barrier(int line) { wait(AT_BLOCK, line); }

static int meet(unsigned mask, unsigned long long mine, int line) {
  Fiber *f = fibers[current];
  int round = f->rounds & 1;  // nobody can be two rounds ahead of who still reads
  if (!(mask >> (current & 31) & 1)) dw_fail("a lane that isn't in its own mask", line);
  warps[current / 32].value[round][current & 31] = mine;
  f->mask = mask;
  wait(AT_WARP, line);
  fibers[current]->rounds++;
  return round;
}

void dw_warp_barrier(unsigned mask, int line) { meet(mask, 0, line); }

unsigned long long dw_shuffle(unsigned mask, unsigned long long mine, int from, int line) {
  int round = meet(mask, mine, line), source = (current & ~31) + from;
  if (from < 0 || from > 31 || source >= (int)threads || !(mask >> from & 1)) return 0x7ff4dead7fa4deadULL;
  return warps[current / 32].value[round][from];
}

unsigned dw_ballot(unsigned mask, int predicate, int line) {
  int round = meet(mask, predicate != 0, line), result = 0;
  for (int i = 0; i < 32; i++)
    if (mask >> i & 1 && (current & ~31) + i < (int)threads)
      result |= (unsigned)warps[current / 32].value[round][i] << i;
  return result;
}

// an asynchronous copy is carried out no earlier than it is waited for; one from nowhere writes zeros
void dw_async_copy(void *to, const void *from, int bytes, int line) {
  auto &pending = fibers[current]->pending;
  if (((uintptr_t)to | (uintptr_t)from) % bytes) dw_fail("misaligned asynchronous copy", line);
  if (pending.empty()) pending.emplace_back();
  pending.back().push_back({to, from, bytes});
}

void dw_async_commit() {
  auto &pending = fibers[current]->pending;
  if (pending.empty()) pending.emplace_back();
  pending.emplace_back();  // the last group is the one that isn't committed yet
}

void dw_async_wait(int most) {
  auto &pending = fibers[current]->pending;
  while ((int)pending.size() - 1 > most) {
    for (auto &c : pending.front())
      if (c.from) memcpy(c.to, c.from, c.bytes);
      else memset(c.to, 0, c.bytes);
    pending.pop_front();
  }
}

// what -fsanitize=alignment,bounds calls
struct Location { const char *file; unsigned line, column; };
struct Mismatch { Location at; const void *type; unsigned char log_alignment, kind; };
void __ubsan_handle_type_mismatch_v1(Mismatch *m, uintptr_t pointer) {
  char text[96];
  snprintf(text, sizeof text, "address %#lx isn't aligned to %d bytes", (long)pointer, 1 << m->log_alignment);
  dw_fail(pointer ? text : "null pointer", m->at.line);
}
void __ubsan_handle_out_of_bounds(Location *at, uintptr_t index) {
  char text[96];
  snprintf(text, sizeof text, "index %ld is outside of its array", (long)index);
  dw_fail(text, at->line);
}

// 0, or 1 with an error's text in `text`
int dw_run(void (*function)(void **), void **args, const unsigned *grid, const unsigned *block, uint64_t seed,
    char *shared, char *shared_end, char *text, int size) {
  kernel = function, arguments = args;
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {block[0], block[1], block[2]};
  threads = block[0] * block[1] * block[2];
  order.seed(seed);
  failed = false;
  message[0] = 0;
  while (fibers.size() < threads) fibers.push_back(new Fiber);
  warps.assign((threads + 31) / 32, {});
  for (unsigned z = 0; z < grid[2]; z++)
    for (unsigned y = 0; y < grid[1]; y++)
      for (unsigned x = 0; x < grid[0] && !failed; x++) {
        blockIdx = {x, y, z};
        if (shared_end > shared) memset(shared, 0xff, shared_end - shared);
        run_block(seed);
      }
  if (failed) {  // fibers that stopped half-way can't be used again
    for (auto *f : fibers) f->begun = false, f->pending.clear();
    snprintf(text, size, "%s", message);
  }
  return failed;
}
}
