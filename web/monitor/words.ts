// What limits are called.

import type { Alarm } from './feed';

export const ALARMS: Record<Alarm, string> = {
  none: '',
  very_low: 'very low',
  low: 'low',
  high: 'high',
  very_high: 'very high',
};
