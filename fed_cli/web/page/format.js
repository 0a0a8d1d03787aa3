// Figures as people read them.

export function loss(value) {
  if (value === null || value === undefined) return "";
  return Math.abs(value) < 10 ? value.toFixed(3) : short(value);
}

export function short(value, digits = 3) {
  if (value === null || value === undefined) return "";
  return String(Number(value.toPrecision(digits)));
}

export function bytes(value) {
  if (!value) return "";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let k = 0;
  while (value >= 1000 && k < units.length - 1) {
    value /= 1000;
    k += 1;
  }
  return `${k && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[k]}`;
}

export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 100) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 100) return `${minutes}:${String(whole % 60).padStart(2, "0")} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

export function count(n, one, many = `${one}s`) {
  return `${n} ${n === 1 ? one : many}`;
}
