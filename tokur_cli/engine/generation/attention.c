/* Attention of one step of generation on a CPU. A response attends to its prompt, to what it has so far and to its next
   token; each key and value is read once for all query heads of its group. Everything is computed in float32.

   Defined by the compiler's command: GROUP, query heads to a key head; SIZE, of a head; BFLOAT16, where not float32. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* scores (GROUP, stride) = queries · keys (columns, SIZE); next (columns, SIZE) is what will be read after them */
static inline void multiply(const float queries[GROUP][SIZE], const scalar *keys, const scalar *next, int64_t columns,
                            float *scores, int64_t stride) {
    for (int64_t column = 0; column < columns; column++) {
        float key[SIZE];
        fetch(next + column * SIZE);
        for (int i = 0; i < SIZE; i++) key[i] = widened(keys[column * SIZE + i]);
        for (int head = 0; head < GROUP; head++) {
            float sum = 0;
            for (int i = 0; i < SIZE; i++) sum += queries[head][i] * key[i];
            scores[head * stride + column] = sum;
        }
    }
}

/* totals += weights (GROUP, stride) · values (columns, SIZE) */
static inline void accumulate(float totals[GROUP][SIZE], const scalar *values, const scalar *next, int64_t columns,
                              const float *weights, int64_t stride) {
    float sums[GROUP][SIZE]; /* of its own, so that it stays in registers */
    memcpy(sums, totals, sizeof sums);
    for (int64_t column = 0; column < columns; column++) {
        fetch(next + column * SIZE);
        for (int head = 0; head < GROUP; head++)
            for (int i = 0; i < SIZE; i++)
                sums[head][i] += weights[head * stride + column] * widened(values[column * SIZE + i]);
    }
    memcpy(totals, sums, sizeof sums);
}

/* Powers of two of scores (columns) less their maximum, in place: returns their sum */
static inline float exponentiate(float *scores, int64_t columns) {
    float most = scores[0], sum = 0;
#pragma omp simd reduction(max : most)
    for (int64_t column = 0; column < columns; column++) most = scores[column] > most ? scores[column] : most;
    for (int64_t column = 0; column < columns; column++) sum += scores[column] = power_of_two(scores[column] - most);
    return sum;
}

/* Write the responses' next column, and attend to all that are there.

   queries        (rows, heads, GROUP, SIZE), heads being key heads
   new_keys       (rows, heads, SIZE), and new_values
   prompt_keys    (prompts, heads, longest, SIZE), and prompt_values: of each, as many columns as lengths (prompts) says
   owners         (rows) which prompt a response continues
   keys           pieces × (rows, heads, width, SIZE), and values: all columns in use, in the last piece those up to next
   next           where the new column belongs in the last piece
   scale          of the scores, times log2(e)
   shared         (rows, heads, GROUP, longest) queries · prompt_keys, computed elsewhere, which the prompts' weights
                  replace: prompt_values are left to the caller; null, if there are none
   output         (rows, heads, GROUP, SIZE)
   scores         (threads, GROUP, stride), unused memory: stride ≥ longest + pieces · width */
void attend(const scalar *queries, const scalar *new_keys, const scalar *new_values, const scalar *prompt_keys,
            const scalar *prompt_values, int64_t longest, const int64_t *lengths, const int64_t *owners,
            scalar *const *keys, scalar *const *values, int64_t pieces, int64_t width, const int64_t *next,
            float scale, scalar *shared, scalar *output, int64_t rows, int64_t heads, float *scores, int64_t stride,
            int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t place = 0; place < rows * heads; place++) {
        const int64_t row = place / heads, prompt = owners[row] * heads + place % heads, length = lengths[owners[row]];
        const scalar *before_keys = prompt_keys + prompt * longest * SIZE;
        const scalar *before_values = prompt_values + prompt * longest * SIZE;
        const int64_t own = place * width * SIZE, new = own + *next * SIZE;
        scalar *const of_prompt = shared ? shared + place * GROUP * longest : NULL;
        float *const mine = scores + omp_get_thread_num() * GROUP * stride;
        float asked[GROUP][SIZE], totals[GROUP][SIZE] = {{0}}, inverse[GROUP];

        memcpy(keys[pieces - 1] + new, new_keys + place * SIZE, SIZE * sizeof(scalar));
        memcpy(values[pieces - 1] + new, new_values + place * SIZE, SIZE * sizeof(scalar));
        for (int head = 0; head < GROUP; head++)
            for (int i = 0; i < SIZE; i++)
                asked[head][i] = widened(queries[(place * GROUP + head) * SIZE + i]) * scale;

        if (shared)
            for (int head = 0; head < GROUP; head++)
                for (int64_t column = 0; column < length; column++)
                    mine[head * stride + column] = widened(of_prompt[head * longest + column]) * scale;
        else
            multiply(asked, before_keys, before_values, length, mine, stride);
        int64_t columns = length;
        for (int64_t piece = 0; piece < pieces; piece++) {
            const int64_t used = piece < pieces - 1 ? width : *next + 1;
            multiply(asked, keys[piece] + own, values[piece] + own, used, mine + columns, stride);
            columns += used;
        }
        for (int head = 0; head < GROUP; head++) inverse[head] = 1 / exponentiate(mine + head * stride, columns);

        if (shared)
            for (int head = 0; head < GROUP; head++)
                for (int64_t column = 0; column < longest; column++)
                    of_prompt[head * longest + column] =
                        narrowed(column < length ? mine[head * stride + column] * inverse[head] : 0);
        else
            accumulate(totals, before_values, before_keys + longest * SIZE, length, mine, stride);
        columns = length;
        for (int64_t piece = 0; piece < pieces; piece++) {
            const int64_t used = piece < pieces - 1 ? width : *next + 1;
            accumulate(totals, values[piece] + own, keys[piece] + own + width * SIZE, used, mine + columns, stride);
            columns += used;
        }
        for (int head = 0; head < GROUP; head++)
            for (int i = 0; i < SIZE; i++)
                output[(place * GROUP + head) * SIZE + i] = narrowed(totals[head][i] * inverse[head]);
    }
}
