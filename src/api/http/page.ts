/**
 * A page of a list, as OpenAI's API writes it.
 * @param none replaces the ids of an empty page.
 */
export function toPage<Item extends { readonly id?: string | null | undefined }, None>(
  data: Item[],
  hasMore: boolean,
  none: None,
) {
  const [first, last] = [data[0], data.at(-1)]
  return { object: 'list' as const, data, first_id: first?.id ?? none, last_id: last?.id ?? none, has_more: hasMore }
}
