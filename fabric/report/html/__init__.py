"""report.html: one self-contained page, pictures as SVG, no network."""
