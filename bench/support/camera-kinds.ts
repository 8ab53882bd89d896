/** `flips`: a red circle comes and goes each second. */
export type CameraKind = 'moving' | 'still' | 'flips'
export type CameraCounts = Readonly<Partial<Record<CameraKind, number>>>

export interface CameraAddresses {
  readonly urls: Readonly<Record<CameraKind, readonly string[]>>
  /** Megabits per second. */
  readonly rates: Readonly<Partial<Record<CameraKind, number>>>
}

export const CAMERA_FPS = 25
