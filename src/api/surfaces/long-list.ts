import { Readable } from 'node:stream'

/**
 * JSON of an object with a list of vectors or pages. Several items are serialised one by one: all at once may take a
 * second.
 * @param rest the object's other fields, at least one.
 */
export function longList<Item>(
  name: string,
  items: readonly Item[],
  toBody: (item: Item, index: number) => unknown,
  rest: object,
): Readable | object {
  return items.length > 1 ? Readable.from(pieces(name, items, toBody, rest)) : { [name]: items.map(toBody), ...rest }
}

function* pieces<Item>(
  name: string,
  items: readonly Item[],
  toBody: (item: Item, index: number) => unknown,
  rest: object,
): Generator<string, void, void> {
  yield `{${JSON.stringify(name)}:[`
  for (const [index, item] of items.entries()) yield (index === 0 ? '' : ',') + JSON.stringify(toBody(item, index))
  yield `],${JSON.stringify(rest).slice(1)}`
}
