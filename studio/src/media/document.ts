import { callBlob } from '../server/call.ts'
import { toFailure } from '../server/failure.ts'
import { toDataUrl } from './attachment.ts'

interface Named {
  readonly blob: Blob
  readonly name: string
}

/** What a body has room for, as base64. */
const MOST_BYTES = 14 * 2 ** 20

/** Not by the name where the type says what it is: the page of a document of one page keeps its name. */
export function isDocument({ blob: { type }, name }: Named): boolean {
  if (/^(application[/](x-)?pdf|image[/](x-)?tiff?)$/.test(type)) return true
  return !/^(image|video|audio)[/]/.test(type) && /[.](pdf|tiff?)$/i.test(name)
}

/**
 * The pages of a PDF as pictures, which the server draws: each can then be asked about and marked like any other.
 * @throws Error with a sentence for the user.
 */
export async function pagesOf(
  file: Named,
): Promise<{ readonly pages: readonly Named[]; readonly problem: string | null }> {
  const { blob, name } = file
  if (blob.size > MOST_BYTES)
    throw new Error(`${name} has more than ${MOST_BYTES / 2 ** 20} MiB. Save some of its pages.`)
  const file_data = await toDataUrl(file)
  const answer = await callBlob('/studio/pages', { method: 'POST', body: { file_data }, noted: false }).catch(
    (error: unknown) => {
      throw new Error(`${name}: ${toFailure(error).message}`)
    },
  )
  const lines = (await answer.text()).split('\n').filter((line) => line !== '')
  const pages: Named[] = []
  let problem: string | null = null
  for (const line of lines) {
    const { png, error, pages: count } = JSON.parse(line) as { png?: string; error?: string; pages: number }
    if (png === undefined) problem = `${name}: ${error}.`
    else pages.push({ blob: pictureOf(png), name: count === 1 ? name : `${name}, page ${pages.length + 1}` })
    if (pages.length < count && pages.length === lines.length) {
      problem = `${name} has ${count} pages, of which the first ${pages.length} are here.`
    }
  }
  return { pages, problem }
}

function pictureOf(png: string): Blob {
  return new Blob([Uint8Array.from(atob(png), (character) => character.charCodeAt(0))], { type: 'image/png' })
}
