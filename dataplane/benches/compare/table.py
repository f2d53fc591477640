"""Samples as Markdown tables."""

import statistics


def table(samples):
    """One table for each scenario that has load, one for memory."""
    scenarios = list(dict.fromkeys(sample["scenario"] for sample in samples))
    loads = [name for name in scenarios if any("us" in sample for sample in samples if sample["scenario"] == name)]
    memory = [name for name in scenarios if name not in loads]
    proxies = list(dict.fromkeys(sample["proxy"] for sample in samples))
    lines = ["| proxy | " + " | ".join(f"{name}: us/req | {name}: kreq/s" for name in loads if name != "6000/s") + " |"]
    lines += ["| --- " * (1 + 2 * len([name for name in loads if name != "6000/s"])) + "|"]
    for proxy in proxies:
        cells = []
        for name in loads:
            if name != "6000/s":
                cells += [spread(samples, proxy, name, "us", 1), spread(samples, proxy, name, "rate", 1, 1000)]
        lines.append(f"| {proxy} | " + " | ".join(cells) + " |")
    if "6000/s" in loads:
        lines += ["", "| proxy | 6,000/s: us/req | p50 us | p99 us | p99.9 us |", "| --- | --- | --- | --- | --- |"]
        for proxy in proxies:
            fields = [("us", 1), ("p50", 0), ("p99", 0), ("p999", 0)]
            cells = [spread(samples, proxy, "6000/s", field, digits) for field, digits in fields]
            lines.append(f"| {proxy} | " + " | ".join(cells) + " |")
    if memory:
        lines += ["", "| proxy | " + " | ".join(f"{name}: MiB" for name in memory) + " |", "| --- " * (1 + len(memory)) + "|"]
        for proxy in proxies:
            lines.append(f"| {proxy} | " + " | ".join(spread(samples, proxy, name, "mib", 1) for name in memory) + " |")
    errors = [f"{s['proxy']} {s['scenario']}: {s['errors']}" for s in samples if s.get("errors")]
    return "\n".join(lines + ["", "Errors: " + ("; ".join(errors) or "none")])


def spread(samples, proxy, scenario, field, digits, unit=1):
    """min/**median**/max, or the one value."""
    values = [s[field] / unit for s in samples if s["proxy"] == proxy and s["scenario"] == scenario and field in s]
    if not values:
        return "-"
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{min(values):.{digits}f}/**{statistics.median(values):.{digits}f}**/{max(values):.{digits}f}"
