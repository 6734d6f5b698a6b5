"""Judging repairs: may a repaired host or link go back into service?"""
