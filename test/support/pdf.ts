/** A page of a PDF: what is drawn on it, in PDF's own words, and what its dictionary says besides. */
export interface PdfPage {
  /** Left, bottom, right and top in points; A4 by default. */
  readonly box?: readonly [number, number, number, number]
  /** Operators, as `1 0 0 rg 10 10 50 50 re f`. */
  readonly content?: string
  /** Further entries, as `/Rotate 90`; with `/Contents`, there is no other content. */
  readonly entries?: string
  readonly resources?: string
}

export interface PdfOptions {
  /** Further objects; the first has the number that follows those of the pages, which have two each, from 3. */
  readonly objects?: readonly (string | Buffer)[]
  /** Further entries of the catalogue, as `/AcroForm 5 0 R`. */
  readonly catalogue?: string
  /** Further entries of the trailer, as `/Encrypt 5 0 R`. */
  readonly trailer?: string
}

const FONT = '/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>'

export function makePdf(
  pages: readonly PdfPage[],
  { objects = [], catalogue = '', trailer = '' }: PdfOptions = {},
): Buffer {
  const kids = pages.map((_, index) => `${3 + 2 * index} 0 R`).join(' ')
  const all: (string | Buffer)[] = [
    `<< /Type /Catalog /Pages 2 0 R ${catalogue} >>`,
    `<< /Type /Pages /Kids [${kids}] /Count ${pages.length} >>`,
  ]
  for (const { box = [0, 0, 595, 842], content = '', entries = '', resources = FONT } of pages) {
    const media = `/MediaBox [${box.join(' ')}]`
    const drawn = entries.includes('/Contents') ? '' : `/Contents ${all.length + 2} 0 R`
    all.push(
      `<< /Type /Page /Parent 2 0 R ${media} ${entries} /Resources << ${resources} >> ${drawn} >>`,
      streamOf(content),
    )
  }
  all.push(...objects)
  const pieces: Buffer[] = [Buffer.from('%PDF-1.7\n')]
  let length = pieces[0]!.length
  const table = all.map((object, index) => {
    const piece = Buffer.concat([Buffer.from(`${index + 1} 0 obj\n`), Buffer.from(object), Buffer.from('\nendobj\n')])
    const at = length
    pieces.push(piece)
    length += piece.length
    return `${String(at).padStart(10, '0')} 00000 n \n`
  })
  const end = `trailer\n<< /Size ${all.length + 1} /Root 1 0 R ${trailer} >>\nstartxref\n${length}\n%%EOF\n`
  pieces.push(Buffer.from(`xref\n0 ${all.length + 1}\n0000000000 65535 f \n${table.join('')}${end}`))
  return Buffer.concat(pieces)
}

/** @param entries of its dictionary besides the length, as `/Filter /FlateDecode`. */
export function streamOf(content: string | Buffer, entries = ''): Buffer {
  const bytes = Buffer.from(content)
  return Buffer.concat([
    Buffer.from(`<< /Length ${bytes.length} ${entries} >>\nstream\n`),
    bytes,
    Buffer.from('\nendstream'),
  ])
}
