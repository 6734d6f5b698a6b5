"""Reports: a judged run and other results as text, HTML, JSON and figures."""
