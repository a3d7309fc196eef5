/*
 * Ten digits of 6 x 6 pixels, and random images that hold one of them: the numbers of examples/glyphs.py.
 *
 * The generator is the Mersenne Twister with the distributions of NumPy's RandomState, so that a C program and a Python
 * program that start with the same seed see the same images.
 */

#ifndef GLYPHS_H
#define GLYPHS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { IMAGE = 20, GLYPH = 6, WORDS = 624 };

typedef struct {
  uint32_t words[WORDS];
  int next;
} random_state;

static void random_seed(random_state* r, uint32_t seed) {
  r->words[0] = seed;
  for (uint32_t i = 1; i < WORDS; i++) {
    r->words[i] = 1812433253u * (r->words[i - 1] ^ (r->words[i - 1] >> 30)) + i;
  }
  r->next = WORDS;
}

static uint32_t random_bits(random_state* r) {
  if (r->next == WORDS) { /* the next 624 words */
    for (int i = 0; i < WORDS; i++) {
      uint32_t joined = (r->words[i] & 0x80000000u) | (r->words[(i + 1) % WORDS] & 0x7fffffffu);
      r->words[i] = r->words[(i + 397) % WORDS] ^ (joined >> 1) ^ (joined & 1 ? 0x9908b0dfu : 0);
    }
    r->next = 0;
  }
  uint32_t bits = r->words[r->next++];
  bits ^= bits >> 11;
  bits ^= (bits << 7) & 0x9d2c5680u;
  bits ^= (bits << 15) & 0xefc60000u;
  return bits ^ (bits >> 18);
}

/* A double in [low, high). */
static double random_uniform(random_state* r, double low, double high) {
  uint32_t upper = random_bits(r) >> 5, lower = random_bits(r) >> 6;
  return low + (high - low) * ((upper * 67108864.0 + lower) / 9007199254740992.0);
}

/* A whole number in [0, count), for a count of at most 16. */
static size_t random_below(random_state* r, size_t count) {
  uint32_t number;
  do {
    number = random_bits(r) & 15;
  } while (number >= count);
  return number;
}

static const char* const GLYPHS[GLYPH] = {
    ".####. ..##.. .####. #####. #...#. ###### .####. ###### .####. .####.",
    "##..## .###.. #...## ....## #...#. #..... ##.... ....## ##..## ##..##",
    "##..## ..##.. ...##. ..###. #...#. #####. #####. ...##. .####. .#####",
    "##..## ..##.. ..##.. ....## ###### ....## ##..## ..##.. ##..## ....##",
    "##..## ..##.. .##... #...## ....#. #...## ##..## ..##.. ##..## ...##.",
    ".####. .####. ###### .####. ....#. .####. .####. ..##.. .####. .###..",
};

/* images [count][20][20], zero but for one glyph at a random place; labels [count][10], 1 at the digit; count <= 64. */
static void draw(random_state* r, size_t count, float* images, float* labels) {
  size_t digits[64];
  memset(images, 0, count * IMAGE * IMAGE * sizeof *images);
  memset(labels, 0, count * 10 * sizeof *labels);
  for (size_t n = 0; n < count; n++) {
    digits[n] = random_below(r, 10);
    labels[n * 10 + digits[n]] = 1;
  }
  for (size_t n = 0; n < count; n++) {
    size_t top = random_below(r, IMAGE - GLYPH), left = random_below(r, IMAGE - GLYPH);
    for (size_t y = 0; y < GLYPH; y++) {
      for (size_t x = 0; x < GLYPH; x++) {
        images[(n * IMAGE + top + y) * IMAGE + left + x] = GLYPHS[y][digits[n] * (GLYPH + 1) + x] == '#';
      }
    }
  }
}

#endif /* GLYPHS_H */
