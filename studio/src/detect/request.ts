import { type Attachment, toDataUrl, upload } from '../media/attachment.ts'
import { attachments } from '../media/attachments.ts'
import { carrying } from '../media/known-media.ts'
import { model } from '../server/connection.ts'
import { categories, examples, negatives } from './targets.ts'

export const CONFIDENCES = [
  { value: 'off', title: 'Plain' },
  { value: 'on', title: 'Confidence' },
  { value: 'thorough', title: 'Thorough' },
] as const

export interface DetectOptions {
  readonly output: 'box' | 'point'
  readonly thinks: boolean
  readonly confidence: (typeof CONFIDENCES)[number]['value']
}

/** A request body may have 20 MB, and base64 adds a third. Beyond this, pictures are uploaded once and named by address. */
const MOST_INLINE_BYTES = 13 * 2 ** 20

/**
 * The detect request for a picture, or for a video, with the targets as they are now.
 * @param state what the reply to the frames before said of tracks; null at the beginning.
 * @throws Failure when an upload fails.
 */
export async function bodyOf(
  picture: Attachment,
  { output, thinks, confidence }: DetectOptions,
  state: string | null = null,
): Promise<object> {
  const shown = attachments.value.filter(({ id }) => examples.value.some(({ media }) => media === id))
  const all = [picture, ...shown, ...negatives.value]
  const isInline = all.reduce((sum, { blob }) => sum + blob.size, 0) <= MOST_INLINE_BYTES
  const mediaOf = async (one: Attachment) => {
    // The contract has QuickTime among uploads only.
    const url =
      isInline && one.blob.type !== 'video/quicktime'
        ? await toDataUrl(one)
        : `${location.origin}/v1/files/${await upload(one)}/content`
    return carrying(one, one.kind === 'video' ? { type: 'video', video_url: url } : { type: 'image', image_url: url })
  }
  const exemplars = await Promise.all(
    shown.map(async (one) => ({
      media: await mediaOf(one),
      annotations: examples.value
        .filter(({ media }) => media === one.id)
        .map(({ label, left, top, right, bottom }) => ({
          mention: label.trim() || 'object',
          point_box: { top_left: { x: left, y: top }, bottom_right: { x: right, y: bottom } },
        })),
    })),
  )
  // Allowed only beside something to find.
  const isTargeted = categories.value.length > 0 || exemplars.length > 0
  const negative = isTargeted
    ? await Promise.all(negatives.value.map(async (one) => ({ media: await mediaOf(one) })))
    : []
  return {
    ...(model.value ? { model: model.value.id } : {}),
    media: await mediaOf(picture),
    ...(categories.value.length > 0 ? { categories: categories.value } : {}),
    ...(exemplars.length > 0 ? { exemplars } : {}),
    ...(negative.length > 0 ? { negative_exemplars: negative } : {}),
    config: {
      output,
      enable_thinking: thinks,
      ...(picture.kind === 'video'
        ? { tracks: true, state }
        : confidence === 'off'
          ? {}
          : { confidence: confidence === 'on' ? true : confidence }),
    },
  }
}
