import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { firstPlace, withOtherNumbers } from './number-groups.ts'

describe('the first place in a text', () => {
  test.each([
    ['<point_box mention="red square"> (104,617) (299,844) </point_box>', [104, 617, 299, 844]],
    ['```json\n[\n\t{"bbox_2d": [10, 20, 30, 40], "label": "square 7"}\n]\n```', [10, 20, 30, 40]],
    ['{"box_2d": [20, 10, 40, 30], "label": "cat"}, {"box_2d": [1, 2, 3, 4], "label": "cat"}', [20, 10, 40, 30]],
    ['<point x="61.5" y="40.4" alt="cup">cup</point>', [61.5, 40.4]],
    ['<points x1="61.5" y1="40.4" x2="20" y2="7.1" alt="cups">cups</points>', [61.5, 40.4, 20, 7.1]],
    ['<loc0246><loc0229><loc0872><loc0904> car', [246, 229, 872, 904]],
    ['<|box_start|>(12,34),(56,78)<|box_end|>', [12, 34, 56, 78]],
    ['<ref>square</ref><box>[[100, 200, 300, 400]]</box>', [100, 200, 300, 400]],
    ['It is at [0.12, 0.34, 0.56, 0.78].', [0.12, 0.34, 0.56, 0.78]],
    ['{"x_min": 12, "y_min": 34, "x_max": 56, "y_max": 78}', [12, 34, 56, 78]],
    ['The top left corner is at (12, 34) and the bottom right is at (56, 78).', [12, 34, 56, 78]],
    ['x: 40, y: 50, width: 20, height: 10', [40, 50, 20, 10]],
    ['There are 2 red squares. The first is at (10, 20).', [10, 20]],
    ['The square is at 100, 200 pixels.', [100, 200]],
    ['(1,2) (3,4) (5,6)', [1, 2]],
    ['-3, 4', [-3, 4]],
  ])('%s', (text, numbers) => {
    expect(firstPlace(text)).toEqual(numbers)
  })

  test.each(['', 'In the top left corner.', 'There are 3 squares.', '1, 2, 3', 'Page 1 of version 2.1.3 has 4 lines'])(
    'none: %s',
    (text) => {
      expect(firstPlace(text)).toBeNull()
    },
  )

  test('is two or four finite numbers, for any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'0123456789.,()[]<>_- \nxylocbox'), maxLength: 60 }), (text) => {
        const place = firstPlace(text)
        if (place === null) return
        expect([2, 4]).toContain(place.length)
        expect(place.every(Number.isFinite)).toBe(true)
      }),
    )
  })
})

test.each([
  ['{"bbox_2d": [234, 345, 456, 567]}', '{"bbox_2d": [0, 7, 1000, 1344]}', '{"bbox_2d": [0, 7, 1000]}'],
  ['<loc0234><loc0345> cat', '<loc0000><loc1023> cat', '<loc0><loc1023> cat'],
  ['<point x="34.5" y="45.6" alt="cup">', '<point x="5" y="612.7" alt="cup">', '<point x="5" y="6" alt="cat">'],
  ['a (1) [2]?', 'a (11) [22]?', 'a 11 [22]?'],
])('a pattern for %s with other numbers', (text, like, unlike) => {
  const pattern = new RegExp(`^${withOtherNumbers(text)}$`)
  expect(pattern.test(text)).toBe(true)
  expect(pattern.test(like)).toBe(true)
  expect(pattern.test(unlike)).toBe(false)
})
