/** About the sample picture; the shipped model answers them rightly (test/weights/studio-examples.test.ts). */
export const EXAMPLE_QUESTIONS: readonly string[] = [
  'What is in this image?',
  'Detect all objects.',
  'Find all squares.',
  'Point to the purple heart.',
  'Where is the blue star?',
  'What colour is the triangle?',
  'How many squares are there?',
  'How many hearts are there?',
  'Is there a red circle?',
  'Is there a yellow ring?',
  'What is the leftmost object?',
  'What is the rightmost object?',
  'What is in the top left corner?',
  'What is in the bottom right corner?',
  'Where is the purple heart?',
  'Detect: red circle, heart',
]
