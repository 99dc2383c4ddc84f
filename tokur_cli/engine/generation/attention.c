/* Attention of one step of generation on a CPU. A response attends to its prompt, to what it has so far and to its next
   token; each key and value is read once for all query heads of its group. Everything is computed in float32.

   Defined by the compiler's command: GROUP, query heads to a key head; SIZE, of a head; BFLOAT16, where not float32. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PART (SIZE % 64 ? SIZE : 64)

int omp_get_thread_num(void); /* omp.h may be missing where PyTorch's OpenMP is there */

static inline float float_of(uint32_t bits) {
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

#ifdef BFLOAT16
typedef uint16_t scalar;

static inline float widened(scalar bits) { return float_of((uint32_t)bits << 16); }

static inline scalar narrowed(float number) { /* to the nearest, ties to even */
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return number == number ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : 0x7fc0;
}
#else
typedef float scalar;

static inline float widened(scalar number) { return number; }
static inline scalar narrowed(float number) { return number; }
#endif

/* 2^x for x ≤ 0 to 2e-7 of it, 2^-126 where that is less; NaN stays */
static inline float power_of_two(float x) {
    float at_least = x > -126 ? x : -126;
    float whole = rintf(at_least);
    float y = (at_least - whole) * 0.693147181f;
    float rest = 1 + y * (1 + y / 2 * (1 + y / 3 * (1 + y / 4 * (1 + y / 5 * (1 + y / 6)))));
    return x == x ? rest * float_of((uint32_t)((int32_t)whole + 127) << 23) : x;
}

/* Ask memory for a vector: by itself a processor reads ahead only within 4 KiB */
static inline void fetch(const scalar *vector) {
    for (int i = 0; i < SIZE; i += 64 / sizeof *vector) __builtin_prefetch(vector + i);
}

/* The columns of one response and key head, page after page */
typedef struct {
    const int32_t *pages;
    int64_t apart, width; /* from a page to the next one in memory; columns of a page */
    int64_t first, last;  /* columns, of which the first begins a page; last excluded */
} columns;

static inline const scalar *page_of(const scalar *states, const columns *of, int64_t page) {
    return states + of->pages[page] * of->apart;
}

/* Columns of a page that are in use */
static inline int64_t used_of(const columns *of, int64_t page) {
    const int64_t left = of->last - page * of->width;
    return left < of->width ? left : of->width;
}

/* scores (GROUP, stride) = queries · keys; values are what will be read after them */
static inline void multiply(const float queries[GROUP][SIZE], const scalar *keys, const scalar *values,
                            const columns *of, float *scores, int64_t stride) {
    for (int64_t page = of->first / of->width; page * of->width < of->last; page++) {
        const scalar *from = page_of(keys, of, page);
        const scalar *next = (page + 1) * of->width < of->last ? page_of(keys, of, page + 1)
                                                               : page_of(values, of, of->first / of->width);
        float *to = scores + page * of->width;
        for (int64_t column = 0, used = used_of(of, page); column < used; column++) {
            float key[SIZE];
            fetch(next + column * SIZE);
            for (int i = 0; i < SIZE; i++) key[i] = widened(from[column * SIZE + i]);
            for (int head = 0; head < GROUP; head++) {
                float sum = 0;
                for (int i = 0; i < SIZE; i++) sum += queries[head][i] * key[i];
                to[head * stride + column] = sum;
            }
        }
    }
}

/* totals = weights (GROUP, stride) · values, a part of a vector at a time, so that their sums stay in registers */
static inline void accumulate(float totals[GROUP][SIZE], const scalar *values, const columns *of, const float *weights,
                              int64_t stride) {
    for (int begin = 0; begin < SIZE; begin += PART) {
        float sums[GROUP][PART] = {{0}};
        for (int64_t page = of->first / of->width; page * of->width < of->last; page++) {
            const scalar *from = page_of(values, of, page) + begin;
            const scalar *next = (page + 1) * of->width < of->last ? page_of(values, of, page + 1) + begin : from;
            const float *by = weights + page * of->width;
            for (int64_t column = 0, used = used_of(of, page); column < used; column++) {
                for (int i = 0; i < PART; i += 64 / sizeof *next) __builtin_prefetch(next + column * SIZE + i);
                for (int head = 0; head < GROUP; head++)
                    for (int i = 0; i < PART; i++)
                        sums[head][i] += by[head * stride + column] * widened(from[column * SIZE + i]);
            }
        }
        for (int head = 0; head < GROUP; head++) memcpy(totals[head] + begin, sums[head], sizeof sums[head]);
    }
}

/* Powers of two of scores (columns) less their maximum, in place: returns their sum */
static inline float exponentiate(float *scores, int64_t columns) {
    float most = scores[0], sum = 0;
#pragma omp simd reduction(max : most)
    for (int64_t column = 0; column < columns; column++) most = scores[column] > most ? scores[column] : most;
    for (int64_t column = 0; column < columns; column++) sum += scores[column] = power_of_two(scores[column] - most);
    return sum;
}

/* Write each response's next column, and attend to all that it has.

   queries        (rows, heads, GROUP, SIZE), heads being key heads
   new_keys       (rows, heads, SIZE), and new_values
   keys           (pages, heads, width, SIZE), and values: the columns of all responses
   table          (rows, most) the pages of each, one after another, the same ones where responses begin alike
   used           (rows) columns of each, the next one included
   scale          of the scores, times log2(e)
   shared         (groups, heads, members, GROUP, longest) queries · keys of the first columns of responses that have
                  them in common, computed elsewhere, which their weights replace: their values are left to the caller;
                  null, if there are none
   member         (rows) which of groups · members a response is
   common         (rows) how many columns these are; 0 for a response that is none of them
   output         (rows, heads, GROUP, SIZE)
   scores         (threads, GROUP, stride), unused memory: stride ≥ the most columns */
void attend(const scalar *queries, const scalar *new_keys, const scalar *new_values, scalar *keys, scalar *values,
            int64_t width, const int32_t *table, int64_t most, const int32_t *used, float scale, scalar *shared,
            int64_t members, int64_t longest, const int32_t *member, const int32_t *common, scalar *output,
            int64_t rows, int64_t heads, float *scores, int64_t stride, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t place = 0; place < rows * heads; place++) {
        const int64_t row = place / heads, key_head = place % heads, own = key_head * width * SIZE, last = used[row] - 1;
        const columns of = {table + row * most, heads * width * SIZE, width, shared ? common[row] : 0, last + 1};
        scalar *const weights = of.first ? shared + ((member[row] / members * heads + key_head) * members +
                                                     member[row] % members) * GROUP * longest : NULL;
        const int64_t new = of.pages[last / width] * of.apart + own + last % width * SIZE;
        float *const mine = scores + omp_get_thread_num() * GROUP * stride;
        float asked[GROUP][SIZE], totals[GROUP][SIZE], inverse[GROUP];

        memcpy(keys + new, new_keys + place * SIZE, SIZE * sizeof(scalar));
        memcpy(values + new, new_values + place * SIZE, SIZE * sizeof(scalar));
        for (int head = 0; head < GROUP; head++)
            for (int i = 0; i < SIZE; i++)
                asked[head][i] = widened(queries[(place * GROUP + head) * SIZE + i]) * scale;

        for (int head = 0; head < GROUP; head++)
            for (int64_t column = 0; column < of.first; column++)
                mine[head * stride + column] = widened(weights[head * longest + column]) * scale;
        multiply(asked, keys + own, values + own, &of, mine, stride);
        for (int head = 0; head < GROUP; head++) inverse[head] = 1 / exponentiate(mine + head * stride, of.last);
        for (int head = 0; of.first && head < GROUP; head++)
            for (int64_t column = 0; column < longest; column++)
                weights[head * longest + column] =
                    narrowed(column < of.first ? mine[head * stride + column] * inverse[head] : 0);
        accumulate(totals, values + own, &of, mine, stride);
        for (int head = 0; head < GROUP; head++)
            for (int i = 0; i < SIZE; i++)
                output[(place * GROUP + head) * SIZE + i] = narrowed(totals[head][i] * inverse[head]);
    }
}
